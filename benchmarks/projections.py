"""Projections against those of optax and jaxopt, one row a peer, float32.

Run: python benchmarks/projections.py [--sets NAME ...] [--output FILE.json]

Vectors from 100 to 1,000,000 entries, square matrices to 512×512, and 10,000 simplices at once.
"""

import argparse
import functools
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _timing import show, side_by_side
from jax import lax

import unixgrad_jax as ux

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # jaxopt says on import that it is no longer maintained
    import jaxopt

SIZES = [100, 1_000, 10_000, 100_000, 1_000_000]
LOOPED_BELOW = 1_000
"""Smaller inputs are projected many times in one compiled loop, as solvers do: a call of its own
would measure its dispatch, 5 or 40 µs by a rule of XLA's, and not the projection."""
LOOPS = 10_000
REPEATS = 15
SIDES = [32, 64, 128, 256, 512]
CAP = 0.01
Function = Callable[..., Any]


def box_section(x: jax.Array) -> jax.Array:
    bounds = (jnp.zeros_like(x), jnp.full_like(x, 2 * CAP), jnp.ones_like(x), x.size * CAP)
    return jaxopt.projection.projection_box_section(x, bounds)


def capped_simplex(x: jax.Array) -> jax.Array:
    return ux.CappedSimplex(total=x.size * CAP, cap=2 * CAP).project(x)


def doubly_stochastic(similarity: jax.Array) -> jax.Array:
    return nearest_plan(ux.Birkhoff(), similarity, similarity.shape[0])


def transport(similarity: jax.Array) -> jax.Array:
    return nearest_plan(ux.TransportPolytope(*marginals(similarity)), similarity, 1)


def nearest_plan(geometry: ux.Geometry, similarity: jax.Array, total: int) -> jax.Array:
    """Return the plan nearest to exp(similarity) in the Kullback-Leibler divergence."""
    return geometry.to_point(geometry.step(jnp.zeros_like(similarity), -similarity, total))


def marginals(similarity: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return row sums and column sums that rise and fall threefold, with total 1."""
    rows, columns = (jnp.linspace(1.0, 3.0, size) for size in similarity.shape)
    return rows / rows.sum(), columns[::-1] / columns.sum()


VECTORS: dict[str, tuple[Function, dict[str, Function]]] = {
    "simplex": (
        ux.Simplex().project,
        {
            "optax": optax.projections.projection_simplex,
            "jaxopt": jaxopt.projection.projection_simplex,
        },
    ),
    "l1 ball": (
        ux.L1Ball().project,
        {
            "optax": optax.projections.projection_l1_ball,
            "jaxopt": jaxopt.projection.projection_l1_ball,
        },
    ),
    "l2 ball": (
        ux.L2Ball().project,
        {
            "optax": optax.projections.projection_l2_ball,
            "jaxopt": jaxopt.projection.projection_l2_ball,
        },
    ),
    "box": (
        ux.Box(-0.5, 0.5).project,
        {
            "optax": lambda x: optax.projections.projection_box(x, -0.5, 0.5),
            "jaxopt": lambda x: jaxopt.projection.projection_box(x, (-0.5, 0.5)),
        },
    ),
    "non-negative": (
        ux.Box(0.0, np.inf).project,
        {
            "optax": optax.projections.projection_non_negative,
            "jaxopt": jaxopt.projection.projection_non_negative,
        },
    ),
    "capped simplex": (capped_simplex, {"jaxopt": box_section}),
}
MATRICES: dict[str, tuple[Function, dict[str, Function]]] = {
    "l2 ball of matrices": VECTORS["l2 ball"],
    "Birkhoff (entropic)": (
        doubly_stochastic,
        {"jaxopt": jaxopt.projection.kl_projection_birkhoff},
    ),
    "transport (entropic)": (
        transport,
        {"jaxopt": lambda x: jaxopt.projection.kl_projection_transport(x, marginals(x))},
    ),
}
BATCH = (10_000, 50)


def vector(kind: str, size: int) -> jax.Array:
    """Return a vector far from the set, with few active entries; near it, with many; or in it."""
    noise = jax.random.normal(jax.random.key(0), (size,))
    if kind == "member":
        return jnp.abs(noise) / jnp.sum(jnp.abs(noise))
    return noise if kind == "far" else (1 + noise / 3) * 2 / size


def repeated(function: Function, loops: int) -> Function:
    """Return the function compiled, or a compiled loop of it over inputs that change a little."""
    if loops == 1:
        return jax.jit(function)

    def again(_: jax.Array, result: jax.Array, point: jax.Array) -> jax.Array:
        return function(0.999 * point + 0.0005 * result)

    return jax.jit(
        lambda point: lax.fori_loop(0, loops, functools.partial(again, point=point), point)
    )


def measure(
    name: str, kind: str, point: jax.Array, ours: Function, peers: dict[str, Function]
) -> Iterator[dict[str, Any]]:
    for peer, function in peers.items():
        error = float(jnp.abs(jax.jit(ours)(point) - jax.jit(function)(point)).max())
        loops = LOOPS if point.size < LOOPED_BELOW else 1
        own, other, ratio = side_by_side(
            repeated(ours, loops),
            repeated(function, loops),
            point,
            repeats=REPEATS,
            calls=max(1, 50_000 // point.size // loops),
        )
        yield {
            "set": name,
            "input": kind,
            "shape": "x".join(map(str, point.shape)),
            "ours µs": own * 1e6 / loops,
            "peer": peer,
            "peer µs": other * 1e6 / loops,
            "ours/peer": ratio,
            "times faster": 1 / ratio,
            "difference": f"{error:.1e}",
        }


def rows(chosen: list[str]) -> Iterator[dict[str, Any]]:
    for name, (ours, peers) in VECTORS.items():
        for kind in ("far", "near", "member"):
            for size in SIZES if name in chosen else []:
                yield from measure(name, kind, vector(kind, size), ours, peers)
    for name, (ours, peers) in MATRICES.items():
        for side in SIDES if name in chosen else []:
            point = jax.random.normal(jax.random.key(0), (side, side))
            yield from measure(name, "far", point, ours, peers)
    if "batch of simplices" in chosen:
        ours, peers = VECTORS["simplex"]
        batched = {peer: jax.vmap(function) for peer, function in peers.items()}
        point = jax.random.normal(jax.random.key(0), BATCH)
        rows_of = ux.Batched(ux.Simplex()).project
        yield from measure("batch of simplices", "far", point, rows_of, batched)
        near = (1 + point / 3) * 2 / BATCH[1]
        yield from measure("batch of simplices", "near", near, rows_of, batched)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    names = [*VECTORS, *MATRICES, "batch of simplices"]
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--output", type=pathlib.Path, help="also write the table as JSON")
    arguments = parser.parse_args()
    show(list(rows(arguments.sets)), arguments.output)


if __name__ == "__main__":
    main()
