"""Time of one `solve` iteration over a bare scan that only takes its two gradients.

Run: python benchmarks/step_overhead.py [--output FILE.json]
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

import unixgrad_jax as ux

SIZES = [(500, 100, 4000), (2000, 1000, 300)]
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


def seconds(function: Callable[..., object], *args: object) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*args))
    return time.perf_counter() - start


def measure(name: str, n: int, d: int, num_steps: int) -> dict[str, float | str | int]:
    """Alternate the two loops; report medians and the median of the ratios of neighbors."""
    keys = jax.random.split(jax.random.key(0), 2)
    A = jax.random.normal(keys[0], (n, d))
    solution = jax.random.dirichlet(keys[1], jnp.full(d, 0.1))
    b = A @ solution
    start = jnp.full(d, 1 / d)
    bare = bare_scan(num_steps)
    geometry = GEOMETRIES[name]

    def full(x: jax.Array, A: jax.Array, b: jax.Array) -> ux.Run:
        return ux.solve(objective, geometry, x, num_steps, args=(A, b))

    seconds(bare, start, A, b)
    seconds(full, start, A, b)
    pairs = [(seconds(bare, start, A, b), seconds(full, start, A, b)) for _ in range(REPEATS)]
    micro = 1e6 / num_steps
    return {
        "set": name,
        "n": n,
        "d": d,
        "bare_us": statistics.median(pair[0] for pair in pairs) * micro,
        "solve_us": statistics.median(pair[1] for pair in pairs) * micro,
        "ratio": statistics.median(pair[1] / pair[0] for pair in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, help="also write the table as JSON")
    output = parser.parse_args().output
    rows = [measure(name, *size) for size in SIZES for name in GEOMETRIES]
    print(f"{'set':<8} {'n':>5} {'d':>5} {'bare µs':>9} {'solve µs':>9} {'ratio':>6}")
    for row in rows:
        print(
            f"{row['set']:<8} {row['n']:>5} {row['d']:>5} "
            f"{row['bare_us']:>9.1f} {row['solve_us']:>9.1f} {row['ratio']:>6.2f}"
        )
    if output:
        output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
