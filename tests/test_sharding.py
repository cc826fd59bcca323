"""Params spread over eight (virtual) devices: the same iterates, and a state spread likewise."""

import os
import pathlib
import subprocess
import sys

SCRIPT = """
import jax, jax.numpy as jnp, numpy as np, optax
import unixgrad_jax as ux
from jax.sharding import NamedSharding, PartitionSpec
from tests import problems

assert jax.device_count() == 8
spread = NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))
data, _, targets = (jnp.asarray(a, jnp.float32) for a in problems.regression_data(40, 64))


def half_steps(optimizer, params):
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        gradient = jax.grad(problems.least_squares)(params, data, targets)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(20):
        params, state = step(params, state)
    return params, state


for name, geometry in problems.GEOMETRIES.items():
    start = geometry.interior_point(jnp.zeros(64, jnp.float32))
    point = 3 * jax.random.normal(jax.random.key(0), (64,))
    np.testing.assert_allclose(
        geometry.project(jax.device_put(point, spread)), geometry.project(point), atol=1e-6
    )
    optimizer = ux.unixgrad(geometry)
    params, state = half_steps(optimizer, start)
    sharded, sharded_state = half_steps(optimizer, jax.device_put(start, spread))
    np.testing.assert_allclose(sharded, params, atol=2e-5)
    for leaf in (sharded_state.anchor, sharded_state.average, sharded_state.hint):
        assert leaf.sharding.is_equivalent_to(spread, 1), (name, leaf.sharding)
    run = ux.solve(problems.least_squares, geometry, start, 10, args=(data, targets))
    spread_run = ux.solve(
        problems.least_squares, geometry, jax.device_put(start, spread), 10, args=(data, targets)
    )
    np.testing.assert_allclose(spread_run.params, run.params, atol=2e-5)
    print(name)
"""


def test_sharded_params_give_the_same_iterates_and_a_sharded_state() -> None:
    root = pathlib.Path(__file__).parent.parent
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(root),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 5
