"""Time of 256 problems under `jax.vmap` of which one is ill-conditioned, float64.

Run: python benchmarks/hard_lane.py [--output FILE.json]

Least squares in an l2 ball, n = 50, d = 20. A batch lasts as long as its slowest lane: the ratio
is its time over the steps of that lane times the cost of a step of the batch, which is the time a
step of 256 copies of that lane. The batch without that lane ends early.
"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
from _suite import Array, least_squares
from _timing import show, side_by_side

import unixgrad_jax as ux

BATCH = 256
REPEATS = 9


def solve(A: Array, b: Array) -> ux.Solution:
    return ux.minimize(least_squares, ux.L2Ball(3.0), jnp.zeros(20), args=(A, b), rtol=1e-6)


def data() -> tuple[Array, Array]:
    """Return A of all problems, the last with columns from 1 to 1/1000, and b."""
    keys = jax.random.split(jax.random.key(0), 3)
    A = jax.random.normal(keys[0], (BATCH, 50, 20))
    A = A.at[-1].multiply(jnp.logspace(0, -3, 20)[None])
    truth = jax.random.normal(keys[1], (BATCH, 20))
    noise = 0.1 * jax.random.normal(keys[2], (BATCH, 50))
    return A, jnp.einsum("kij,kj->ki", A, truth) + noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--output", type=pathlib.Path, help="also write the table as JSON")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    batch = jax.jit(jax.vmap(solve))
    mixed = data()
    copies = tuple(jnp.broadcast_to(array[-1], array.shape) for array in mixed)
    easy = tuple(array.at[-1].set(array[0]) for array in mixed)
    rows = []
    for name, given in {"one hard lane": mixed, "none": easy}.items():

        def ours(given: tuple[Array, Array] = given) -> ux.Solution:
            return batch(*given)

        own, all_hard, _ = side_by_side(ours, lambda: batch(*copies), repeats=REPEATS, calls=1)
        steps = int(ours().num_steps.max())
        step = all_hard / int(batch(*copies).num_steps.max())
        rows.append(
            {
                "batch": name,
                "slowest lane, steps": steps,
                "median steps": float(jnp.median(ours().num_steps)),
                "ms": 1e3 * own,
                "ms a step of the batch": 1e3 * step,
                "ratio": own / (steps * step),
            }
        )
    show(rows, options.output)


if __name__ == "__main__":
    main()
