"""UniXGrad against a NumPy transcription of the paper, and against its theorems."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import oracle, problems
from tests.sampling import by_default

SIZE = 12
ORACLES = {
    "ball": oracle.l2_ball(2.0),
    "box": oracle.box(-0.5, 0.75, SIZE),
    "simplex": oracle.simplex(1.5),
    "l1_ball": oracle.l1_ball(2.0),
    "entropic_simplex": oracle.entropic_simplex(1.5, SIZE),
}
CASES = {name: (geometry, ORACLES[name]) for name, geometry in problems.GEOMETRIES.items()}
EXACT_DIAMETER = [name for name in CASES if name != "entropic_simplex"]


def feasible_start(seed: int = 3) -> np.ndarray:
    """Return a point that lies in every set of CASES, inside the simplices."""
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, SIZE)
    return 1.5 * weights / weights.sum()


def run_half_steps(
    objective: Callable, geometry: ux.Geometry, start: dict, args: tuple, offset: float | None
) -> jax.Array:
    """Return x̄_1 … x̄_200 by the half-step transform in a Python-free loop."""
    optimizer = ux.unixgrad(geometry, offset=offset)

    def update(carry: tuple, _: None) -> tuple[tuple, dict]:
        params, state = carry
        updates, state = optimizer.update(jax.grad(objective)(params, *args), state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), ux.eval_params(state, params)

    _, averages = jax.lax.scan(update, (start, optimizer.init(start)), length=400)
    return jax.tree.map(lambda leaf: leaf[::2], averages)


def run_opaque(
    objective: Callable, geometry: ux.Geometry, start: dict, args: tuple, offset: float | None
) -> jax.Array:
    optimizer = ux.unixgrad(geometry, offset=offset, opaque=True)

    def grad_fn(params: dict) -> dict:
        return jax.grad(objective)(params, *args)

    def update(carry: tuple, _: None) -> tuple[tuple, dict]:
        params, state = carry
        updates, state = optimizer.update(grad_fn(params), state, params, grad_fn=grad_fn)
        params = optax.apply_updates(params, updates)
        return (params, state), ux.eval_params(state, params)

    return jax.lax.scan(update, (start, optimizer.init(start)), length=200)[1]


def run_solve(
    objective: Callable, geometry: ux.Geometry, start: dict, args: tuple, offset: float | None
) -> jax.Array:
    return ux.solve(
        objective, geometry, start, 200, args=args, offset=offset, trace=lambda info: info.average
    ).trace


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("name", "offset"), [*((name, 1.0) for name in CASES), ("simplex", None)])
@pytest.mark.parametrize("run", [run_half_steps, run_opaque, run_solve])
def test_every_way_of_running_equals_the_paper_on_trees(
    name: str, run: Callable, offset: float | None
) -> None:
    geometry, reference = CASES[name]
    A, _, b = problems.regression_data(30, SIZE)

    def objective(tree: dict, A: jax.Array, b: jax.Array) -> jax.Array:
        return problems.least_squares(problems.as_vector(tree), A, b)

    start = jax.tree.map(jnp.asarray, problems.as_tree(feasible_start()))

    @jax.jit
    def averages() -> jax.Array:
        trees = run(objective, geometry, start, (jnp.asarray(A), jnp.asarray(b)), offset)
        return jax.vmap(problems.as_vector)(trees)

    expected = oracle.unixgrad(
        lambda x: A.T @ (A @ x - b) / 30, feasible_start(), reference, 200, offset
    ).average
    scale = np.abs(expected).max()
    np.testing.assert_allclose(averages(), expected, rtol=0, atol=1e-10 * scale)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", CASES)
def test_solve_sees_the_iterates_and_learning_rates_of_the_paper(name: str) -> None:
    geometry, reference = CASES[name]
    A, _, b = problems.regression_data(30, SIZE)
    run = ux.solve(
        problems.least_squares,
        geometry,
        jnp.asarray(feasible_start()),
        50,
        args=(jnp.asarray(A), jnp.asarray(b)),
        trace=lambda info: info,
    )

    def gradient(x: np.ndarray) -> np.ndarray:
        return A.T @ (A @ x - b) / 30

    expected = oracle.unixgrad(gradient, feasible_start(), reference, 50)
    eta = 2 * reference.diameter / np.sqrt(1 + np.concatenate([[0.0], expected.sums[:-1]]))
    np.testing.assert_allclose(run.trace.learning_rate, eta, rtol=1e-10)
    np.testing.assert_allclose(run.trace.last, expected.last, atol=1e-10)
    np.testing.assert_array_equal(run.trace.step, np.arange(1, 51))
    at_average = np.stack([gradient(x) for x in expected.average])
    np.testing.assert_allclose(run.trace.gradient, at_average, atol=1e-9)
    np.testing.assert_allclose(run.state.sum_squares, expected.sums[-1], rtol=1e-9)
    np.testing.assert_allclose(
        geometry.to_point(run.state.anchor), expected.anchors[-1], atol=1e-10
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("objective", [problems.least_squares, problems.absolute_loss])
@pytest.mark.parametrize("name", by_default(["ball", "simplex"], EXACT_DIAMETER))
def test_the_run_time_bound_of_theorem_1_holds_at_every_step(
    name: str, objective: Callable
) -> None:
    geometry, _ = CASES[name]
    A, _, b = problems.regression_data(30, SIZE)
    args = (jnp.asarray(A), jnp.asarray(b))
    start = jnp.asarray(feasible_start())
    run = ux.solve(
        objective,
        geometry,
        start,
        3000,
        args=args,
        trace=lambda info: (objective(info.average, *args), info.learning_rate),
    )
    values, eta = run.trace
    optimum = ux.solve(objective, geometry, start, 100_000, args=args).params
    lowest = min(float(objective(optimum, *args)), float(values.min()))
    D = float(geometry.diameter(start))
    t = np.arange(1, 3000)
    root = 2 * D / eta[1:]  # sqrt(1 + Σ_{i≤t} α_i²‖g_i − M_i‖*²)
    bound = (7 * D * root - D) / t**2
    assert np.all(values[:-1] - lowest <= bound)


@pytest.mark.usefixtures("x64")
def test_the_printed_bound_of_theorem_3_fails_and_the_corrected_one_holds() -> None:
    c, D = 1e-6, np.sqrt(2)
    run = ux.solve(
        lambda x: c / 2 * (x + 10) ** 2,
        ux.Box(-1.0, 1.0),
        jnp.asarray(1.0),
        1000,
        trace=lambda info: c / 2 * ((info.average + 10) ** 2 - 81),
    )
    T = np.arange(1, 1001)
    printed = 20 * np.sqrt(7) * D**2 * c / T**2
    corrected = np.maximum(4 * D, 20 * np.sqrt(10) * D**2 * c) / T**2
    np.testing.assert_allclose(run.trace[99] / c, 19.1, atol=0.05)
    np.testing.assert_allclose(printed[99] / c, 0.0106, atol=5e-5)
    assert run.trace[99] > printed[99]
    assert np.all(run.trace <= corrected)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("scale", by_default([1e-6], [1e-6, 1e-3, 1.0, 1e3]))
@pytest.mark.parametrize("name", EXACT_DIAMETER)
def test_the_corrected_theorem_3_holds_on_least_squares(name: str, scale: float) -> None:
    geometry, _ = CASES[name]
    A, _, b = problems.regression_data(30, SIZE)
    args = (jnp.asarray(A), jnp.asarray(b))

    def objective(x: jax.Array, A: jax.Array, b: jax.Array) -> jax.Array:
        return scale * problems.least_squares(x, A, b)

    start = jnp.asarray(feasible_start())
    values = ux.solve(
        objective,
        geometry,
        start,
        2000,
        args=args,
        trace=lambda info: objective(info.average, *args),
    ).trace
    optimum = ux.solve(objective, geometry, start, 50_000, args=args, offset=None).params
    lowest = min(float(objective(optimum, *args)), float(values.min()))
    D = float(geometry.diameter(start))
    L = scale * np.linalg.eigvalsh(A.T @ A / 30).max()
    T = np.arange(1, 2001)
    assert np.all(values - lowest <= max(4 * D, 20 * np.sqrt(10) * D**2 * L) / T**2)


def fitted_slope(steps: np.ndarray, errors: np.ndarray) -> float:
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", by_default(["l1_ball", "entropic_simplex"], CASES))
def test_smooth_exact_errors_fall_at_least_like_t_to_minus_1_9(name: str) -> None:
    """Ill-conditioned least squares, with an optimum that a few steps do not find."""
    geometry, _ = CASES[name]
    A, solution, _ = problems.regression_data(200, SIZE)
    A = A * np.logspace(0, -1.5, SIZE)
    args = (jnp.asarray(A), jnp.asarray(A @ solution))
    start = jnp.asarray(feasible_start())
    optimum = ux.solve(problems.least_squares, geometry, start, 200_000, args=args).params
    values = ux.solve(
        problems.least_squares,
        geometry,
        start,
        5000,
        args=args,
        trace=lambda info: problems.least_squares(info.average, *args),
    ).trace
    steps = np.unique(np.geomspace(50, 5000, 40).astype(int))
    errors = values[steps - 1] - problems.least_squares(optimum, *args)
    assert np.all(errors > 0)
    assert fitted_slope(steps, errors) <= -1.9


@pytest.mark.usefixtures("x64")
def test_non_smooth_errors_fall_at_least_like_t_to_minus_0_45() -> None:
    """The mean absolute error of a linear model, averaged over 20 random starts."""
    A, _, b = problems.regression_data(60, SIZE)
    args = (jnp.asarray(A), jnp.asarray(b))
    geometry = ux.L2Ball(2.0)
    optimum = ux.solve(problems.absolute_loss, geometry, jnp.zeros(SIZE), 400_000, args=args)
    lowest = problems.absolute_loss(optimum.params, *args)
    starts = jax.random.normal(jax.random.key(0), (20, SIZE))

    def values(start: jax.Array) -> jax.Array:
        return ux.solve(
            problems.absolute_loss,
            geometry,
            start,
            4000,
            args=args,
            trace=lambda info: problems.absolute_loss(info.average, *args),
        ).trace

    errors = np.mean(jax.vmap(values)(starts), axis=0) - lowest
    steps = np.unique(np.geomspace(40, 4000, 40).astype(int))
    assert np.all(errors[steps - 1] > 0)
    assert fitted_slope(steps, errors[steps - 1]) <= -0.45


def mean_noisy_errors(name: str, num_steps: int, every: int, num_keys: int) -> np.ndarray:
    """Return f(x̄_t) − f* after every so many steps with Gaussian gradient noise, mean over keys."""
    geometry, _ = CASES[name]
    A, _, b = problems.regression_data(200, SIZE)
    data = (jnp.asarray(A), jnp.asarray(b))
    start = jnp.asarray(feasible_start())

    def objective(x: jax.Array, noise: jax.Array) -> jax.Array:
        return problems.least_squares(x, *data) + jnp.vdot(noise, x)

    def values(key: jax.Array) -> jax.Array:
        return ux.solve(
            objective,
            geometry,
            start,
            num_steps,
            sampler=lambda key: 0.3 * jax.random.normal(key, (SIZE,)),
            key=key,
            trace=lambda info: problems.least_squares(info.average, *data),
            trace_every=every,
        ).trace

    traced = jax.vmap(values)(jax.random.split(jax.random.key(0), num_keys))
    optimum = ux.solve(problems.least_squares, geometry, start, 50_000, args=data).params
    return np.mean(traced, axis=0) - float(problems.least_squares(optimum, *data))


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["ball", "box", "simplex", "entropic_simplex"])
def test_noisy_errors_fall_at_least_like_t_to_minus_0_45(name: str) -> None:
    errors = mean_noisy_errors(name, num_steps=20_000, every=10, num_keys=24)
    steps = np.unique(np.geomspace(1000, 20_000, 40).astype(int) // 10 * 10)
    assert np.all(errors[steps // 10 - 1] > 0)
    assert fitted_slope(steps, errors[steps // 10 - 1]) <= -0.45


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_noisy_errors_in_the_l1_ball_reach_the_same_slope_later() -> None:
    """The ball's vertices delay it: −0.40 around t = 10⁴, −0.46 from 10⁵ to 10⁶."""
    errors = mean_noisy_errors("l1_ball", num_steps=1_000_000, every=100, num_keys=4)
    steps = np.unique(np.geomspace(100_000, 1_000_000, 40).astype(int) // 100 * 100)
    assert fitted_slope(steps, errors[steps // 100 - 1]) <= -0.45


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", CASES)
def test_without_an_offset_the_run_does_not_depend_on_the_scale_of_the_objective(
    name: str,
) -> None:
    geometry, _ = CASES[name]
    A, _, b = problems.regression_data(30, SIZE)

    def scaled(x: jax.Array, factor: jax.Array) -> jax.Array:
        return factor * problems.least_squares(x, jnp.asarray(A), jnp.asarray(b))

    def run(factor: float) -> jax.Array:
        start = jnp.asarray(feasible_start())
        return ux.solve(
            scaled, geometry, start, 100, args=(jnp.asarray(factor),), offset=None
        ).params

    np.testing.assert_allclose(run(1e-6), run(1.0), atol=1e-11)
    np.testing.assert_allclose(run(1e6), run(1.0), atol=1e-11)


def test_entropic_iterates_come_back_from_weights_below_1e_300(dtype: np.dtype) -> None:
    """The loss of entry 0 is terrible for a while, then best: its weight must recover."""
    geometry = ux.EntropicSimplex()
    mirror = geometry.to_mirror(jnp.full(3, 1 / 3, dtype))
    away = jnp.array([4000.0, 0.0, 0.0], dtype)
    mirror = geometry.step(mirror, away, 1.0)
    assert mirror[0] < np.log(1e-300)
    assert geometry.to_point(mirror)[0] == 0
    mirror = geometry.step(mirror, -away, 1.0)
    rounding = 4000 * np.finfo(dtype).eps  # of the log-weight on its way
    np.testing.assert_allclose(geometry.to_point(mirror), np.full(3, 1 / 3), rtol=2 * rounding)


def test_entropic_solves_recover_a_weight_that_vanished(dtype: np.dtype) -> None:
    """A start that is all but a wrong vertex: the solve must still reach the right one."""
    start = jnp.array([1.0 - 1e-7, 1e-7, 0.0], dtype)
    cost = jnp.array([1.0, 0.5, 0.0], dtype)
    run = ux.solve(lambda x: jnp.vdot(cost, x), ux.EntropicSimplex(), start, 300, offset=None)
    np.testing.assert_allclose(run.params, [0, 0, 1], atol=2e-2)
