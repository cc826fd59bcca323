"""Full solves: oracles, traces, compilation, derivatives, vmap, errors."""

import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import problems
from tests.derivatives import assert_derivatives

A, _, B = (jnp.asarray(array, jnp.float32) for array in problems.regression_data(40, 8))


def square_distance(x: jax.Array, target: jax.Array) -> jax.Array:
    return jnp.sum((x - target) ** 2)


def batch_loss(x: jax.Array, batch: tuple) -> jax.Array:
    return problems.least_squares(x, *batch)


def test_the_answer_is_the_state_average_in_the_structure_of_the_start() -> None:
    start = {"a": jnp.zeros(2, jnp.bfloat16), "b": (jnp.zeros((), jnp.float32),)}

    def objective(params: dict) -> jax.Array:
        return jnp.sum((params["a"] - 1) ** 2) + (params["b"][0] - 1) ** 2

    run = ux.solve(objective, ux.L2Ball(1.0), start, 50)
    assert jax.tree.map(lambda leaf: leaf.dtype, run.params) == {
        "a": jnp.bfloat16,
        "b": (jnp.float32,),
    }
    assert run.state.average["a"].dtype == jnp.float32
    assert int(run.state.step) == 50
    assert run.trace is None


def test_a_partition_answers_with_every_block() -> None:
    """An average where a block has one, the params that it reached where not."""
    optimizer = optax.partition(
        {
            "ball": ux.unixgrad(ux.L2Ball()),
            "simplex": ux.mirror_prox(ux.Simplex(), 0.3),
            "free": optax.sgd(0.1),
        },
        {"a": "ball", "b": "simplex", "c": "free"},
    )
    start = {"a": jnp.zeros(2), "b": jnp.array([0.5, 0.5]), "c": jnp.ones(2)}

    def objective(params: dict) -> jax.Array:
        return sum(jnp.sum((leaf - jnp.array([0.3, 0.4])) ** 2) for leaf in params.values())

    def view(info: ux.StepInfo) -> tuple:
        return info.average, info.last

    run = ux.solve(objective, ux.Unconstrained(), start, 10, optimizer=optimizer, trace=view)
    average, last = jax.tree.map(lambda leaf: leaf[-1], run.trace)
    expected = last
    for block in run.state.inner_states.values():
        if block is not run.state.inner_states["free"]:
            expected = ux.eval_params(block, expected)
    jax.tree.map(np.testing.assert_array_equal, run.params, expected)
    jax.tree.map(np.testing.assert_array_equal, average, expected)
    np.testing.assert_allclose(run.params["c"], last["c"])
    assert all(jnp.any(run.params[name] != last[name]) for name in "ab")
    assert jnp.any(run.params["c"] != start["c"])


def test_integer_starts_are_promoted_and_infeasible_ones_projected() -> None:
    seen = []

    def objective(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda norm: seen.append(float(norm)), jnp.linalg.norm(x))
        return jnp.sum((x - 2.0) ** 2)

    run = ux.solve(objective, ux.L2Ball(1.0), jnp.array([30, 40]), 5)
    jax.effects_barrier()
    assert run.params.dtype == jnp.result_type(float)
    assert len(seen) == 10
    assert max(seen) <= 1 + 1e-6


def test_without_params_the_start_is_the_interior_point() -> None:
    ball = ux.L2Ball(1.0, center=jnp.array([5.0, 5.0]))
    first = ux.solve(square_distance, ball, num_steps=50, args=(jnp.zeros(2),))
    np.testing.assert_allclose(first.params, 5 - np.sqrt([0.5, 0.5]), atol=1e-3)
    like = {"w": jax.ShapeDtypeStruct((3,), jnp.float32)}
    run = ux.solve(lambda p: jnp.sum(p["w"] ** 2), ux.Simplex(), like, 10)
    np.testing.assert_allclose(run.params["w"], np.full(3, 1 / 3), rtol=1e-6)


def test_stochastic_solves_draw_two_fresh_batches_an_iteration() -> None:
    keys = []

    def sampler(key: jax.Array) -> jax.Array:
        jax.debug.callback(lambda data: keys.append(tuple(data.tolist())), jax.random.key_data(key))
        return jax.random.normal(key, (2,))

    run = ux.solve(
        lambda x, noise: jnp.sum((x - noise) ** 2),
        ux.L2Ball(1.0),
        jnp.zeros(2),
        20,
        sampler=sampler,
        key=jax.random.key(1),
    )
    jax.block_until_ready(run.params)
    jax.effects_barrier()
    assert len(keys) == len(set(keys)) == 40


two_geometries = pytest.mark.parametrize("name", ["ball", "simplex"])
"""What is of the geometry alone is tested with the geometries, for all of them."""


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_minibatch_solves_are_reproducible_and_get_close(make: Callable) -> None:
    sampler = ux.minibatches((A, B), 5)

    def answer(seed: int) -> jax.Array:
        return ux.solve(
            batch_loss, ux.L2Ball(3.0), jnp.zeros(8), 3000, sampler=sampler, key=make(seed)
        ).params

    exact = ux.solve(problems.least_squares, ux.L2Ball(3.0), jnp.zeros(8), 3000, args=(A, B))
    np.testing.assert_array_equal(answer(0), answer(0))
    assert not np.array_equal(answer(0), answer(1))
    np.testing.assert_allclose(answer(0), exact.params, atol=0.15)


def test_minibatches_are_uniform_and_keep_rows_together() -> None:
    rows = jnp.arange(10)
    batch = ux.minibatches({"x": rows, "y": (rows * 2.0,)}, 20_000)(jax.random.key(0))
    assert batch["x"].shape == (20_000,)
    np.testing.assert_array_equal(batch["y"][0], 2 * batch["x"])
    counts = np.bincount(batch["x"], minlength=10)
    assert np.abs(counts - 2000).max() <= 5 * np.sqrt(2000)


@pytest.mark.parametrize("every", [1, 3, 7, 20])
def test_trace_every_keeps_every_so_many_records(every: int) -> None:
    def trace(info: ux.StepInfo) -> dict:
        return {"step": info.step, "x": info.average}

    arguments = (square_distance, ux.L2Ball(1.0), jnp.zeros(2), 20)
    args = (jnp.array([3.0, 4.0]),)
    every_step = ux.solve(*arguments, args=args, trace=trace)
    some = ux.solve(*arguments, args=args, trace=trace, trace_every=every)
    chosen = np.arange(every - 1, 20, every)[: 20 // every]
    np.testing.assert_array_equal(some.trace["step"], chosen + 1)
    np.testing.assert_allclose(some.trace["x"], every_step.trace["x"][chosen], atol=1e-6)
    np.testing.assert_allclose(some.params, every_step.params, atol=1e-6)


def compilations(caplog: pytest.LogCaptureFixture, function: Callable[[], Any]) -> int:
    """Return how many programs XLA compiles during a call."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        jax.block_until_ready(function())
    return sum("Finished XLA compilation" in record.message for record in caplog.records)


@pytest.mark.filterwarnings("default")
def test_a_second_call_with_new_arrays_compiles_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def call(scale: float) -> ux.Run:
        return ux.solve(
            problems.least_squares,
            ux.L2Ball(scale),
            scale * jnp.ones(8),
            20,
            args=(scale * A, B),
            diameter=scale,
            offset=scale,
        )

    def stochastic(scale: float) -> ux.Run:
        return ux.solve(
            batch_loss,
            ux.Simplex(scale),
            scale * jnp.ones(8),
            20,
            sampler=ux.minibatches((scale * A, B), 5),
            key=jax.random.key(int(scale)),
        )

    for function in [call, stochastic]:
        prepared = [jax.block_until_ready(scale * A) for scale in (2.0, 3.0)]
        assert prepared
        assert compilations(caplog, lambda f=function: f(2.0)) >= 1
        assert compilations(caplog, lambda f=function: f(3.0)) == 0


@pytest.mark.usefixtures("x64")
@two_geometries
def test_derivatives_of_the_answer_equal_finite_differences(name: str) -> None:
    """Forward and reverse, in the data, the start, the radius and D."""
    data, _, targets = problems.regression_data(20, 8)
    args = (jnp.asarray(data), jnp.asarray(targets))
    weights = jnp.linspace(-1.0, 1.0, 8)

    def answer(shift: jax.Array, start: jax.Array, factor: jax.Array, D: jax.Array) -> jax.Array:
        geometry = jax.tree.map(lambda leaf: leaf * factor, problems.GEOMETRIES[name])
        run = ux.solve(
            problems.least_squares,
            geometry,
            start,
            12,
            args=(args[0], args[1] + shift),
            diameter=D,
        )
        return jnp.vdot(weights, run.params)

    at = (np.zeros(20), np.linspace(0.05, 0.3, 8), np.array(1.0), np.array(0.4))
    rng = np.random.default_rng(0)
    directions = [rng.normal(size=value.shape) for value in at]
    assert_derivatives(answer, at, directions, rtol=1e-5, atol=1e-7)


@two_geometries
def test_vmap_over_data_starts_radii_diameters_and_keys_is_a_loop(name: str) -> None:
    factors = jnp.array([0.7, 1.0, 1.6])
    starts = jax.random.uniform(jax.random.key(0), (3, 8))
    data = jax.random.normal(jax.random.key(1), (3, 40, 8))
    keys = jax.random.split(jax.random.key(2), 3)

    def answer(
        factor: jax.Array, start: jax.Array, data: jax.Array, D: jax.Array, key: jax.Array
    ) -> jax.Array:
        geometry = jax.tree.map(lambda leaf: leaf * factor, problems.GEOMETRIES[name])
        return ux.solve(
            batch_loss,
            geometry,
            start,
            40,
            sampler=ux.minibatches((data, B), 5),
            key=key,
            diameter=D,
        ).params

    batch = jax.jit(jax.vmap(answer))(factors, starts, data, factors, jax.random.clone(keys))
    one = jax.jit(answer)
    for i in range(3):
        alone = one(factors[i], starts[i], data[i], factors[i], keys[i])
        np.testing.assert_allclose(batch[i], alone, atol=5e-4)


def test_objectives_may_close_over_traced_arrays() -> None:
    targets = jnp.array([[3.0, 4.0], [0.1, 0.2]])

    def answer(target: jax.Array) -> jax.Array:
        return ux.solve(
            lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 300
        ).params

    np.testing.assert_allclose(jax.vmap(answer)(targets), [[0.6, 0.8], [0.1, 0.2]], atol=1e-3)
    assert jnp.all(jnp.isfinite(jax.jacrev(answer)(targets[0])))


def test_objectives_may_be_pytrees() -> None:
    objective = jax.tree_util.Partial(lambda target, x: square_distance(x, target), jnp.ones(2))
    run = ux.solve(objective, ux.L2Ball(1.0), jnp.zeros(2), 200)
    np.testing.assert_allclose(run.params, np.sqrt([0.5, 0.5]), atol=1e-3)


def test_other_optimizers_run_one_update_a_step() -> None:
    target = jnp.array([0.3, 0.4])
    run = ux.solve(
        square_distance,
        ux.L2Ball(1.0),
        jnp.array([30.0, 40.0]),
        100,
        args=(target,),
        optimizer=optax.sgd(0.1),
        trace=lambda info: (info.step, info.average, info.last, info.learning_rate),
    )
    step, average, last, learning_rate = run.trace
    np.testing.assert_array_equal(step, np.arange(1, 101))
    np.testing.assert_array_equal(average, last)
    np.testing.assert_allclose(last[0], [0.6 - 0.2 * 0.3, 0.8 - 0.2 * 0.4], rtol=1e-5)
    assert jnp.all(jnp.isnan(learning_rate))
    np.testing.assert_allclose(run.params, target, atol=1e-5)


def test_optimizers_that_search_a_line_get_what_they_need() -> None:
    run = ux.solve(
        problems.least_squares,
        ux.L2Ball(1e3),
        jnp.zeros(8),
        30,
        args=(A, B),
        optimizer=optax.lbfgs(),
    )
    expected = jnp.linalg.lstsq(A, B)[0]
    np.testing.assert_allclose(run.params, expected, atol=1e-3)


def test_opaque_mode_in_a_stochastic_solve_takes_two_independent_batches() -> None:
    seen = []

    def sampler(key: jax.Array) -> jax.Array:
        draw = jax.random.normal(key, ())
        jax.debug.callback(lambda value: seen.append(float(value)), draw)
        return draw

    run = ux.solve(
        lambda x, noise: (x - noise) ** 2,
        ux.Box(-1.0, 1.0),
        jnp.asarray(0.0),
        10,
        sampler=sampler,
        key=jax.random.key(0),
        optimizer=ux.unixgrad(ux.Box(-1.0, 1.0), opaque=True),
    )
    jax.block_until_ready(run.params)
    jax.effects_barrier()
    assert len(set(seen)) == 20


def solve_with(**options: Any) -> ux.Run:
    arguments = {"objective": jnp.sum, "geometry": ux.L2Ball(), "params": jnp.ones(2)}
    return ux.solve(**(arguments | options))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_steps": 0}, ValueError, "num_steps must be an integer of at least 1, not 0"),
        ({"num_steps": 2.5}, ValueError, "num_steps must be an integer"),
        ({"trace_every": 0}, ValueError, "trace_every must be an integer"),
        ({"sampler": lambda key: key}, ValueError, "sampler= was given without key="),
        ({"key": jax.random.key(0)}, ValueError, "key= was given without sampler="),
        ({"args": jnp.ones(2)}, TypeError, "args must be a tuple"),
        ({"objective": 3.0}, TypeError, "objective must be callable"),
        ({"trace": "all"}, TypeError, "trace must be callable"),
        ({"geometry": 1.0}, TypeError, "geometry must be"),
        ({"diameter": -1.0}, ValueError, "diameter must be non-negative"),
        ({"offset": -1.0}, ValueError, "offset must be positive"),
        ({"optimizer": "adam"}, TypeError, "optimizer must be an optax transform"),
        ({"params": jnp.ones(2) * 1j}, TypeError, "real numbers"),
        ({"params": None}, ValueError, "does not know the shape of its points"),
        ({"params": "abc"}, TypeError, "arrays or real numbers, but one leaf is a str"),
        ({"geometry": ux.Box(0.0, np.inf)}, ValueError, "unbounded"),
        ({"geometry": ux.L2Ball(jnp.ones(2))}, ValueError, "radius must be a scalar here"),
        ({"geometry": ux.L1Ball(jnp.ones(2))}, ValueError, "radius must be a scalar here"),
        ({"geometry": ux.Simplex(jnp.ones(2))}, ValueError, "total must be a scalar here"),
        ({"geometry": ux.EntropicSimplex(np.ones(2))}, ValueError, "total must be a scalar here"),
        ({"diameter": jnp.ones(2)}, ValueError, "diameter must be a scalar here"),
        ({"offset": jnp.ones(1)}, ValueError, "offset must be a scalar here"),
        ({"geometry": ux.L2Ball(1.0, center=np.ones(3))}, ValueError, "center must broadcast"),
        ({"geometry": ux.Box(np.zeros(3), 1.0)}, ValueError, "lower must broadcast"),
        ({"geometry": ux.Box(0.0, {"a": 1.0})}, ValueError, "upper must be a scalar or a tree"),
    ],
)
def test_mistakes_are_named(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        solve_with(**options)


@pytest.mark.parametrize(
    ("data", "size", "message"),
    [
        ((jnp.ones(3), jnp.ones(4)), 2, "share a leading axis"),
        ((), 2, "share a leading axis"),
        (jnp.ones(()), 2, "share a leading axis"),
        (jnp.ones((0, 2)), 2, "at least one row"),
        (jnp.ones(3), 0, "batch_size must be an integer of at least 1, not 0"),
    ],
)
def test_bad_minibatches_are_refused(data: Any, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ux.minibatches(data, size)


def test_unhashable_objectives_are_named() -> None:
    class Loss:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.sum(x)

    with pytest.raises(TypeError, match="objective must be hashable, or a pytree"):
        solve_with(objective=Loss())
