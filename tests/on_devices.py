"""What test_sharding.py runs in processes of their own, whose devices are set before JAX starts.

python -m tests.on_devices FUNCTION ARGUMENTS
"""

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import unixgrad_jax as ux
from tests import problems

FEATURES, _, TARGETS = (np.float32(a) for a in problems.regression_data(40, 64))
SPREAD, WHOLE = PartitionSpec("d"), PartitionSpec()


def params_spread(axis_type: str, *names: str) -> None:
    mesh, in_mesh = eight_devices(axis_type)
    spread = NamedSharding(mesh, SPREAD)
    far = np.asarray(3 * jax.random.normal(jax.random.key(0), (64,)))
    for name in names:
        geometry = problems.GEOMETRIES[name]
        start = center(geometry)
        params, _ = jax.jit(descend)(geometry, start, FEATURES, TARGETS)
        projected = geometry.project(far)
        with in_mesh(mesh):
            start = jax.device_put(start, spread)
            spread_params, state = jax.jit(descend)(geometry, start, FEATURES, TARGETS)
            spread_projected = geometry.project(jax.device_put(far, spread))
            first_state = ux.unixgrad(geometry).init(start)
            solution = ux.minimize(loss, geometry, start, args=(FEATURES, TARGETS), rtol=1e-5)
        np.testing.assert_allclose(spread_params, params, atol=2e-5)
        np.testing.assert_allclose(spread_projected, projected, atol=1e-6)
        assert solution.status == ux.Status.CONVERGED
        for leaf in jax.tree.leaves((first_state, state, solution)):
            assert leaf.ndim == 0 or leaf.sharding.is_equivalent_to(spread, 1), (name, leaf)


def solve_spread(name: str) -> None:
    mesh, _ = eight_devices("Auto")
    geometry = problems.GEOMETRIES[name]
    start = center(geometry)
    alone, together = (
        ux.solve(loss, geometry, params, 10, args=(FEATURES, TARGETS)).params
        for params in (start, jax.device_put(start, NamedSharding(mesh, SPREAD)))
    )
    np.testing.assert_allclose(together, alone, atol=2e-5)


def rows_spread(name: str, *modes: str) -> None:
    mesh, _ = eight_devices("Auto")
    geometry = problems.GEOMETRIES[name]
    data = (FEATURES, TARGETS, center(geometry))
    for opaque in (mode == "opaque" for mode in modes):
        on_one = functools.partial(on_rows, geometry, opaque, lambda value: value)
        on_each = functools.partial(on_rows, geometry, opaque, lambda v: jax.lax.pmean(v, "d"))
        together = jax.shard_map(
            on_each, mesh=mesh, in_specs=(SPREAD, SPREAD, WHOLE), out_specs=WHOLE
        )
        jax.tree.map(
            lambda ours, theirs: np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5),
            jax.jit(together)(*data),
            jax.jit(on_one)(*data),
        )


def on_rows(
    geometry: ux.Geometry, opaque: bool, combine: Callable[[Any], Any], A: Any, b: Any, start: Any
) -> tuple[Any, Any]:
    return descend(geometry, start, A, b, combine, opaque)


def half_of_the_rows(process: str, port: str) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(process))
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,))
    A, b = (
        jax.make_array_from_process_local_data(
            NamedSharding(mesh, SPREAD), np.split(rows, 2)[int(process)]
        )
        for rows in (FEATURES, TARGETS)
    )
    print(json.dumps(regression(A, b, NamedSharding(mesh, WHOLE))))


def regression(A: Any, b: Any, out_sharding: NamedSharding | None = None) -> list[float]:
    """Return the params after 20 half-steps in the ball, compiled as one."""
    geometry = ux.L2Ball(2.0)

    def run(A: Any, b: Any) -> Any:
        return descend(geometry, center(geometry), A, b)[0]

    return np.asarray(jax.jit(run, out_shardings=out_sharding)(A, b)).tolist()


def descend(
    geometry: ux.Geometry,
    start: Any,
    A: Any,
    b: Any,
    combine: Callable[[Any], Any] = lambda value: value,
    opaque: bool = False,
) -> tuple[Any, Any]:
    """Return params and state after 20 updates with the combined losses of all devices."""
    optimizer = ux.unixgrad(geometry, opaque=opaque)
    gradient = jax.grad(lambda x: combine(loss(x, A, b)))

    def update(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        params, state = carry
        updates, state = optimizer.update(gradient(params), state, params, grad_fn=gradient)
        return optax.apply_updates(params, updates), state

    return jax.lax.fori_loop(0, 20, update, (start, optimizer.init(start)))


def loss(x: Any, A: Any, b: Any) -> Any:
    """Return least squares without a product of matrices, whose result has no explicit sharding."""
    return jnp.mean((jnp.sum(A * x[None], axis=1) - b) ** 2) / 2


def center(geometry: ux.Geometry) -> Any:
    return geometry.interior_point(jnp.zeros(64))


def eight_devices(axis_type: str) -> tuple[jax.sharding.Mesh, Any]:
    """Return the mesh of all devices, and the context manager that computes in a mesh."""
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType[axis_type],))
    return mesh, jax.set_mesh if hasattr(jax, "set_mesh") else jax.sharding.use_mesh


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
