"""What float32, float16 and bfloat16 do to long runs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import problems
from tests.precision import x64_set
from tests.sampling import by_default
from unixgrad_jax._template import Average, move_towards

A, SOLUTION, B = problems.regression_data(500, 100)
NORM, SUM = float(np.linalg.norm(SOLUTION)), float(np.abs(SOLUTION).sum())
BOUNDARY = {
    "ball": (ux.L2Ball(0.7 * NORM), A, B),
    "simplex": (ux.Simplex(0.5 * SUM), A, A @ np.abs(SOLUTION)),
    "l1_ball": (ux.L1Ball(0.6 * SUM), A, B),
}


def value64(x: np.ndarray, A: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean((A @ np.asarray(x, np.float64) - b) ** 2) / 2)


def optimal_value(geometry: ux.Geometry, A: np.ndarray, b: np.ndarray) -> float:
    """Return a float64 optimum with a certificate of 1e-9 relative."""
    with x64_set(True):
        args = (jnp.asarray(A), jnp.asarray(b))
        x = ux.solve(
            problems.least_squares, geometry, jnp.zeros(A.shape[1]), 100_000, args=args, offset=None
        ).params
        gradient = jax.grad(problems.least_squares)(x, *args)
        value = value64(x, A, b)
        assert ux.frank_wolfe_gap(geometry, x, gradient) <= 1e-8 * value
    return value


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        pytest.param(*case, marks=[] if case == ("ball", None) else pytest.mark.slow)
        for case in (*((name, None) for name in BOUNDARY), ("ball", 1.0))
    ],
)
def test_float32_reaches_5e_6_relative_error_and_does_not_get_worse_with_t(
    name: str, offset: float | None
) -> None:
    geometry, A, b = BOUNDARY[name]
    optimum = optimal_value(geometry, A, b)
    run = ux.solve(
        problems.least_squares,
        geometry,
        jnp.zeros(100, jnp.float32),
        100_000,
        args=(jnp.asarray(A, jnp.float32), jnp.asarray(b, jnp.float32)),
        offset=offset,
        trace=lambda info: info.average,
        trace_every=20_000,
    )
    errors = [abs(value64(x, A, b) - optimum) / optimum for x in run.trace]
    assert errors[0] <= 5e-6
    assert errors[-1] <= 1e-6


def excess64(geometry: ux.Geometry, x: jax.Array) -> np.ndarray:
    """Return the violation of each row in float64, by definitions written out again."""
    rows = np.asarray(x, np.float64)
    match geometry:
        case ux.L2Ball():
            return np.maximum(np.linalg.norm(rows, axis=1) - float(geometry.radius), 0)
        case ux.L1Ball():
            return np.maximum(np.abs(rows).sum(axis=1) - float(geometry.radius), 0)
        case ux.Box():
            return np.maximum(rows - geometry.upper, geometry.lower - rows).max(axis=1)
        case ux.Simplex() | ux.EntropicSimplex():
            off = np.abs(rows.sum(axis=1) - float(geometry.total))
            return np.maximum(off, -rows.min(axis=1))
    raise AssertionError(geometry)


def size_of(geometry: ux.Geometry) -> float:
    match geometry:
        case ux.L2Ball() | ux.L1Ball():
            return float(geometry.radius)
        case ux.Box():
            return max(abs(float(geometry.lower)), abs(float(geometry.upper)))
        case ux.Simplex() | ux.EntropicSimplex():
            return float(geometry.total)
    raise AssertionError(geometry)


def all_queries(
    objective: Callable, geometry: ux.Geometry, start: jax.Array, num_steps: int
) -> tuple:
    """Return every 1,000th pair (x̄_t, z̃_{t+1}) of the half-step transform, and the last one."""
    optimizer = ux.unixgrad(geometry)
    num_chunks = num_steps // 1000

    def iteration(carry: tuple, _: None) -> tuple[tuple, None]:
        (params, state, key), points = carry, []
        for _half in range(2):
            key, sample = jax.random.split(key)
            updates, state = optimizer.update(jax.grad(objective)(params, sample), state, params)
            params = optax.apply_updates(params, updates)
            points.append(params)
        return (params, state, key), tuple(points)

    def chunk(carry: tuple, _: None) -> tuple[tuple, tuple]:
        carry, points = jax.lax.scan(iteration, carry, length=1000)
        return carry, jax.tree.map(lambda leaf: leaf[-1], points)

    @jax.jit
    def run() -> tuple:
        carry = (start, optimizer.init(start), jax.random.key(0))
        return jax.lax.scan(chunk, carry, length=num_chunks)[1]

    return run()


@pytest.mark.parametrize("size", by_default([2], [2, 101]))
@pytest.mark.parametrize("kind", by_default(["noisy"], ["smooth", "non-smooth", "noisy"]))
@pytest.mark.parametrize("name", problems.GEOMETRIES)
def test_queries_stay_feasible_to_8_ulp_for_100_000_float32_steps(
    name: str, kind: str, size: int
) -> None:
    geometry = problems.GEOMETRIES[name]
    data, _, targets = problems.regression_data(60, size)
    data, targets = jnp.asarray(data, jnp.float32), jnp.asarray(targets, jnp.float32)

    def objective(x: jax.Array, key: jax.Array) -> jax.Array:
        if kind == "noisy":
            rows = jax.random.randint(key, (3,), 0, 60)
            return problems.least_squares(x, data[rows], targets[rows])
        loss = problems.absolute_loss if kind == "non-smooth" else problems.least_squares
        return loss(x, data, targets)

    start = geometry.interior_point(jnp.zeros(size, jnp.float32))
    allowed = 8 * np.finfo(np.float32).eps * size_of(geometry)
    for points in all_queries(objective, geometry, start, 100_000):
        assert points.dtype == jnp.float32
        assert excess64(geometry, points).max() <= allowed


def slowly_converging(length: int) -> np.ndarray:
    return np.linspace(0.5, 0.7, 20) + 0.3 / np.sqrt(np.arange(1, length + 1))[:, None]


def scattered(length: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(size=(length, 20))


@pytest.mark.parametrize(("draw", "most"), [(slowly_converging, 1), (scattered, 4)])
def test_a_mean_of_100_000_points_is_right_to_few_ulp_where_a_plain_one_is_not(
    draw: Callable[[int], np.ndarray], most: int
) -> None:
    """Why the state keeps the last increment of the average, one more array.

    The scattered mean passes ½ time and again, where the spacing of floats changes.
    """
    points = draw(100_000).astype(np.float32)
    weights = np.arange(1.0, len(points) + 1)
    expected = np.average(points.astype(np.float64), axis=0, weights=weights)

    def add(carry: tuple, weighted: tuple) -> tuple[tuple, None]:
        plain, average = carry
        t, point = weighted
        theta = 2 / (t + 1)
        return (plain + theta * (point - plain), move_towards(average, point, theta)), None

    zero = jnp.zeros(20, jnp.float32)
    steps = (jnp.asarray(weights, jnp.float32), jnp.asarray(points))
    (plain, average), _ = jax.lax.scan(add, (zero, Average(zero, zero)), steps)
    ulp = np.finfo(np.float32).eps
    assert np.abs(np.asarray(average.value, np.float64) - expected).max() <= most * ulp
    assert np.abs(np.asarray(plain, np.float64) - expected).max() > 8 * ulp


@pytest.mark.parametrize("half", by_default(["bfloat16"], ["float16", "bfloat16"]))
@pytest.mark.parametrize("name", problems.GEOMETRIES)
def test_half_precision_params_stay_feasible_and_in_their_dtype(name: str, half: str) -> None:
    check_feasibility_in(half, name)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", problems.GEOMETRIES)
def test_float64_params_stay_feasible_and_in_their_dtype(name: str) -> None:
    check_feasibility_in("float64", name)


def check_feasibility_in(dtype: str, name: str) -> None:
    geometry = problems.GEOMETRIES[name]
    size = 40
    data, _, targets = problems.regression_data(60, size)
    data, targets = jnp.asarray(data, dtype), jnp.asarray(targets, dtype)

    def objective(x: jax.Array, key: jax.Array) -> jax.Array:
        del key
        return problems.least_squares(x, data, targets)

    start = geometry.interior_point(jnp.zeros(size, dtype))
    allowed = 8 * float(jnp.finfo(dtype).eps) * size_of(geometry)
    for points in all_queries(objective, geometry, start, 2000):
        assert points.dtype == dtype
        assert excess64(geometry, points).max() <= allowed


def test_float16_counts_beyond_the_range_of_its_integers() -> None:
    """At t > 65,536 neither α_t nor Σα² may overflow or stop in the state of float16 params."""
    geometry = ux.L2Ball(1.0)
    target = jnp.array([3.0, 4.0], jnp.float16)
    run = ux.solve(
        lambda x: jnp.sum((x - target) ** 2), geometry, jnp.zeros(2, jnp.float16), 70_000
    )
    assert int(run.state.step) == 70_000
    assert jnp.isfinite(run.state.sum_squares)
    assert run.params.dtype == jnp.float16
    np.testing.assert_allclose(run.params, [0.6, 0.8], atol=2e-3)
