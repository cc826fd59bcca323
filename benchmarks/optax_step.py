"""Time of `unixgrad` a gradient, on a float32 pytree, over that of Adam with a projection.

Run: python benchmarks/optax_step.py [--sets NAME ...] [--sizes N ...] [--output FILE.json]

One row a mode and a peer: Adam and then the projection of optax, or the one of this package. An
opaque update takes two gradients, all others one. Two arrays take turns as gradients, so that the
optimizer alone is timed, but the second of an opaque update waits for its point, as every gradient
does: it is divided by 1 + 0·x. Params, state and gradients are donated. Memory is in units of the
params: the state, and what the compiled update allocates.
"""

import argparse
import itertools
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import optax
from _timing import seconds, show, side_by_side
from optax import projections

import unixgrad_jax as ux

SIZES = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
RADIUS = 1.0
Projection = Callable[[Any], Any]


def optax_box(params: Any) -> Any:
    ends = [optax.tree.full_like(params, end) for end in (-RADIUS, RADIUS)]
    return projections.projection_box(params, *ends)


SETS: dict[str, tuple[ux.Geometry, Projection]] = {
    "l2 ball": (ux.L2Ball(RADIUS), lambda x: projections.projection_l2_ball(x, RADIUS)),
    "box": (ux.Box(-RADIUS, RADIUS), optax_box),
    "simplex": (ux.Simplex(RADIUS), lambda x: projections.projection_simplex(x, RADIUS)),
    "l1 ball": (ux.L1Ball(RADIUS), lambda x: projections.projection_l1_ball(x, RADIUS)),
}
SECONDS = 0.1
"""About how long each of the alternating runs takes."""
REPEATS = 9


class Training(NamedTuple):
    """A function that takes the next update, and the memory that it needs."""

    step: Callable[[], object]
    gradients: int
    state: float
    temporary: float | None


def network(size: int, key: jax.Array) -> dict[str, jax.Array]:
    """Return normal entries in the leaves of a small network, `size` of them in all."""
    width = math.isqrt(size) // 2
    shapes = {"in": (2 * width, width), "bias": (width,), "hidden": (width, width)}
    shapes["out"] = (size - sum(math.prod(shape) for shape in shapes.values()),)
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.normal(k, shape)
        for (name, shape), k in zip(shapes.items(), keys, strict=True)
    }


def training(
    optimizer: optax.GradientTransformation, projection: Projection, size: int, opaque: bool = False
) -> Training:
    """Compile an update that overwrites its params and state, and hold both between calls."""

    def update(params: Any, state: Any, gradients: list[Any]) -> tuple[Any, Any, list[Any]]:
        def second(point: Any) -> Any:
            gradients[1] = jax.tree.map(wait_for, gradients[1], point)
            return gradients[1]

        extra = {"grad_fn": second} if opaque else {}
        updates, state = optimizer.update(gradients[0], state, params, **extra)
        return projection(optax.apply_updates(params, updates)), state, gradients

    params = network(size, jax.random.key(0))
    state = jax.jit(optimizer.init)(params)
    gradients = [network(size, jax.random.key(i)) for i in (1, 2)]
    taken = 2 if opaque else 1
    held = [params, state]
    compiled = jax.jit(update, donate_argnums=(0, 1, 2)).lower(*held, gradients[:taken]).compile()
    memory = compiled.memory_analysis()

    def step() -> object:
        *held[:], used = compiled(*held, gradients[:taken])
        gradients[:] = gradients[taken:] + used
        return held

    unit = nbytes(params)
    return Training(
        step,
        taken,
        nbytes(state) / unit,
        memory.temp_size_in_bytes / unit if memory else None,
    )


def wait_for(gradient: jax.Array, point: jax.Array) -> jax.Array:
    return gradient / (1 + 0 * point)


def nbytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def calls_in(step: Callable[[], object]) -> int:
    """Return an even number of calls, as an iteration may take two, that last about `SECONDS`."""
    step()
    return 2 * max(1, round(SECONDS / 2 / seconds(step, calls=2)))


def measure(name: str, size: int) -> Iterator[dict[str, Any]]:
    geometry, optax_projection = SETS[name]
    modes = {
        mode: training(ux.unixgrad(geometry, opaque=opaque), lambda params: params, size, opaque)
        for mode, opaque in (("half-step", False), ("opaque", True))
    }
    peers = {
        "adam + optax projection": training(optax.adam(1e-3), optax_projection, size),
        "adam + our projection": training(optax.adam(1e-3), geometry.project, size),
    }
    for (mode, own), (peer, other) in itertools.product(modes.items(), peers.items()):
        own_time, other_time, ratio = side_by_side(
            own.step, other.step, repeats=REPEATS, calls=calls_in(other.step)
        )
        yield {
            "set": name,
            "parameters": size,
            "mode": mode,
            "ours µs": own_time * 1e6 / own.gradients,
            "peer": peer,
            "peer µs": other_time * 1e6,
            "ours/peer": ratio / own.gradients,
            "our state": own.state,
            "peer state": other.state,
            "our temp": own.temporary,
            "peer temp": other.temporary,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="NAME")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="N")
    parser.add_argument("--output", type=pathlib.Path, help="also write the table as JSON")
    arguments = parser.parse_args()
    show(
        [row for name in arguments.sets for n in arguments.sizes for row in measure(name, n)],
        arguments.output,
    )


if __name__ == "__main__":
    main()
