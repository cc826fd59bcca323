"""Projections onto the simplex and the ℓ1 ball against optax.projections, float32.

Run: python benchmarks/projections.py [--output FILE.json]
"""

import argparse
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import optax
from _timing import show, side_by_side

import unixgrad_jax as ux

SIZES = [100, 1_000, 10_000, 100_000, 1_000_000]
PAIRS = {
    "simplex": (ux.Simplex(1.0).project, optax.projections.projection_simplex),
    "l1 ball": (ux.L1Ball(1.0).project, optax.projections.projection_l1_ball),
}


def inputs(kind: str, size: int) -> jax.Array:
    """Return a vector far from the set, with few active entries; near it, with many; or in it."""
    noise = jax.random.normal(jax.random.key(0), (size,))
    if kind == "member":
        return jnp.abs(noise) / jnp.sum(jnp.abs(noise))
    return noise if kind == "far" else (1 + noise / 3) * 2 / size


def measure(name: str, kind: str, size: int) -> dict[str, Any]:
    ours, peer = (jax.jit(function) for function in PAIRS[name])
    point = inputs(kind, size)
    error = float(jnp.abs(ours(point) - peer(point)).max())
    calls = max(1, 20_000 // size)
    own, other, ratio = side_by_side(ours, peer, point, repeats=7, calls=calls)
    return {
        "set": name,
        "input": kind,
        "n": size,
        "ours µs": own * 1e6,
        "optax µs": other * 1e6,
        "ours/optax": ratio,
        "times faster": 1 / ratio,
        "difference": f"{error:.1e}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, help="also write the table as JSON")
    output = parser.parse_args().output
    show(
        [
            measure(name, kind, n)
            for name in PAIRS
            for kind in ("far", "near", "member")
            for n in SIZES
        ],
        output,
    )


if __name__ == "__main__":
    main()
