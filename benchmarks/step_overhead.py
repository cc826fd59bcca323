"""Time of one `solve` iteration over a bare scan that only takes its two gradients.

Run: python benchmarks/step_overhead.py [--output FILE.json]
"""

import argparse
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from _timing import show, side_by_side
from jax import lax

import unixgrad_jax as ux

SIZES = [(500, 100, 20_000), (2000, 1000, 1_000)]
GEOMETRIES = {"ball": ux.L2Ball(1.0), "simplex": ux.Simplex()}
REPEATS = 7


def objective(x: jax.Array, A: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.mean((A @ x - b) ** 2) / 2


def bare_scan(num_steps: int) -> Callable[..., jax.Array]:
    """Return a compiled loop with the same two gradients a step, and next to nothing else."""
    gradient = jax.grad(objective)

    @jax.jit
    def run(x: jax.Array, A: jax.Array, b: jax.Array) -> jax.Array:
        def body(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            middle = x - 1e-3 * gradient(x, A, b)
            return x - 1e-3 * gradient(middle, A, b), None

        return lax.scan(body, x, length=num_steps)[0]

    return run


def measure(name: str, n: int, d: int, num_steps: int) -> dict[str, Any]:
    """Alternate the two loops, and report a time for one iteration of each."""
    keys = jax.random.split(jax.random.key(0), 2)
    A = jax.random.normal(keys[0], (n, d))
    solution = jax.random.dirichlet(keys[1], jnp.full(d, 0.1))
    b = A @ solution
    start = jnp.full(d, 1 / d)
    bare = bare_scan(num_steps)
    geometry = GEOMETRIES[name]

    def full(x: jax.Array, A: jax.Array, b: jax.Array) -> ux.Run:
        return ux.solve(objective, geometry, x, num_steps, args=(A, b))

    own, other, ratio = side_by_side(full, bare, start, A, b, repeats=REPEATS, calls=1)
    return {
        "set": name,
        "n": n,
        "d": d,
        "bare µs": other / num_steps * 1e6,
        "solve µs": own / num_steps * 1e6,
        "solve/bare": ratio,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, help="also write the table as JSON")
    output = parser.parse_args().output
    show([measure(name, *size) for size in SIZES for name in GEOMETRIES], output)


if __name__ == "__main__":
    main()
