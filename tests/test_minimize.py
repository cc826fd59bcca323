"""Minimization to a proven error: counts, bounds, robustness, batches, derivatives, errors."""

import functools
import io
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from benchmarks import _suite
from tests import problems
from tests.sampling import by_default
from unixgrad_jax._search_state import CHECK_EVERY, MAX_REJECTIONS

A, _, B = problems.regression_data(40, 8)


def square_distance(x: jax.Array, target: jax.Array) -> jax.Array:
    return jnp.sum((x - target) ** 2)


def barrier(x: jax.Array) -> jax.Array:
    return -jnp.sum(jnp.log(x))


def minimize(
    objective: Callable,
    geometry: ux.Geometry,
    params: jax.Array | dict | None = None,
    args: tuple = (),
    **options: object,
) -> ux.Solution:
    """Return what `ux.minimize` does, checks and all in one compiled function."""

    def call(geometry: ux.Geometry, params: object, args: tuple) -> ux.Solution:
        return ux.minimize(objective, geometry, params, args=args, **options)

    return jax.jit(call)(geometry, params, args)


def status(solution: ux.Solution) -> ux.Status:
    return ux.Status(int(solution.status))


# Gradients to a certified 1e-6 of f(x_0) − f* when restarts and certificates were first put on the
# paper's method, two gradients an iteration.
FIRST_COUNTS = {
    "ball-0.5": 23,
    "ball-0.9": 34,
    "ball-1.2": 76,
    "ill-conditioned-0.7": 158,
    "ill-conditioned-1.5": 2699,
    "logistic": 158,
    "lasso": 81,
    "mean-variance": 461,
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", by_default(["ball-0.9", "logistic"], FIRST_COUNTS))
def test_a_certified_millionth_takes_few_gradients_whatever_the_scale(name: str) -> None:
    (problem,) = _suite.problems([name])
    optimum = _suite.optimum(problem)
    scale = float(problem.value(problem.start)) - optimum

    @jax.jit
    def solve(factor: jax.Array) -> ux.Solution:
        return ux.minimize(
            lambda x, *args: factor * problem.objective(x, *args),
            problem.geometry,
            problem.start,
            args=problem.args,
            rtol=0.0,
            atol=1e-6 * scale * factor,
        )

    counts = {}
    for factor in (1.0, 2.0**-20, 2.0**20, 1e-6, 1e6):
        solution = solve(jnp.asarray(factor))
        assert status(solution) == ux.Status.CONVERGED
        assert solution.value - factor * optimum <= solution.gap <= 1e-6 * scale * factor
        counts[factor] = int(solution.num_gradients)
    assert counts[1.0] <= FIRST_COUNTS[name]
    assert counts[1.0] == counts[2.0**-20] == counts[2.0**20]  # they round alike
    assert counts[1.0] == counts[1e-6] == counts[1e6]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("radius", "most"), [(0.3, 12), (300.0, 60)])
def test_spectral_steps_are_those_of_a_numpy_transcription(radius: float, most: int) -> None:
    matrix = A * np.logspace(0, -1.5, 8)
    for steps in (1, 2, 5, most):
        solution = minimize(
            problems.least_squares,
            ux.L2Ball(radius),
            jnp.zeros(8),
            args=(jnp.asarray(matrix), jnp.asarray(B)),
            rtol=0.0,
            max_steps=steps,
        )
        params, bound = spectral_steps(matrix, B, radius, steps)
        np.testing.assert_allclose(solution.params, params, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(solution.lower_bound, bound, rtol=1e-9)


def spectral_steps(
    matrix: np.ndarray, b: np.ndarray, radius: float, steps: int
) -> tuple[np.ndarray, float]:
    """Return the best point and the best bound, for ½·mean (Ax − b)² in a ball, from the center.

    d = P(x − λg) − x;  f(x + d) ≤ reference − 1e-4·‖d‖²/λ;  λ ← ‖d‖²/⟨d, Δg⟩
    """

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        residual = matrix @ x - b
        return np.mean(residual**2) / 2, matrix.T @ residual / len(b)

    x = np.zeros(matrix.shape[1])
    value, gradient = evaluate(x)
    best, lowest = x, value
    bound = value - gradient @ x - radius * np.linalg.norm(gradient)
    reference = highest = value
    waited = 0
    size = first = np.sqrt(2) * radius / np.linalg.norm(gradient)
    for _ in range(steps):
        moved = x - size * gradient
        moved = moved * min(1, radius / np.linalg.norm(moved))
        value, slope = evaluate(moved)
        bound = max(bound, value - slope @ moved - radius * np.linalg.norm(slope))
        way, change = moved - x, slope - gradient
        spectral = way @ way / (way @ change)
        if accepted := value <= reference - 1e-4 * (way @ way) / size:
            x, gradient = moved, slope
            size = np.clip(spectral, 1e-6 * size, 30 * size)
        else:
            size = np.clip(spectral, 0.1 * size, 0.5 * size)
        size = first * 2.0 ** (np.round(4 * np.log2(size / first)) / 4)
        if value < lowest:
            best, lowest, highest, waited = moved, value, value, 0
        elif accepted:
            highest, waited = max(highest, value), waited + 1
            if waited == 10:
                reference, highest, waited = highest, value, 0
    return best, bound


@pytest.mark.usefixtures("x64")
def test_averaged_steps_take_over_where_spectral_ones_make_no_progress() -> None:
    def solve(max_steps: int) -> ux.Solution:
        return minimize(
            problems.absolute_loss,
            ux.L2Ball(),
            jnp.ones(8),
            args=(jnp.asarray(A), jnp.asarray(B)),
            rtol=0.0,
            max_steps=max_steps,
        )

    spectral, averaged = solve(50), solve(300)
    assert (int(spectral.num_restarts), int(spectral.num_gradients)) == (0, 51)
    assert averaged.num_restarts >= 1
    assert averaged.gap <= spectral.gap / 3


@pytest.mark.usefixtures("x64")
def test_restarts_begin_at_the_best_point_of_averaged_steps() -> None:
    """From a stale one the same proof takes far more gradients."""
    (problem,) = _suite.problems(["absolute-errors"])
    scale = float(problem.value(problem.start)) - _suite.optimum(problem)
    counts = []
    for factor in (1.0, 1e-6, 1e6):
        solution = minimize(
            lambda x, factor, *args: factor * problem.objective(x, *args),
            problem.geometry,
            problem.start,
            args=(jnp.asarray(factor), *problem.args),
            rtol=0.0,
            atol=1e-4 * scale * factor,
        )
        assert status(solution) == ux.Status.CONVERGED
        counts.append(int(solution.num_gradients))
    assert counts[0] <= 2000
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.usefixtures("x64")
def test_the_bound_closes_where_the_objective_has_kinks() -> None:
    """A single tangent at a kink bounds nothing; the mean of many does."""
    solution = minimize(
        lambda x: jnp.sum(jnp.abs(x - 0.2)), ux.L2Ball(), jnp.ones(5), rtol=0.0, atol=1e-3
    )
    assert status(solution) == ux.Status.CONVERGED
    assert solution.lower_bound <= 0 <= solution.value <= 1e-3


@pytest.mark.usefixtures("x64")
def test_without_restarts_worth_making_the_rate_at_kinks_is_that_of_the_method() -> None:
    """A stall doubles the wait for the next, so that stalls cannot eat up the steps."""
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(12, 6)))
    gaps = [
        float(
            minimize(
                lambda x: jnp.max(rows @ x), ux.Simplex(), jnp.full(6, 1 / 6), rtol=0.0, max_steps=t
            ).gap
        )
        for t in (100, 1600)
    ]
    assert gaps[1] <= gaps[0] / 4 * 1.5


def test_a_zero_gradient_a_constant_and_a_single_point_converge_at_once() -> None:
    cases = [
        (lambda x: jnp.sum((x - 0.5) ** 2), ux.L2Ball(2.0), jnp.full(3, 0.5)),
        (lambda x: 0 * jnp.sum(x) + 3, ux.L2Ball(), jnp.ones(3)),
        (lambda x: jnp.sum(x**2), ux.L2Ball(0.0), jnp.ones(3)),
        (lambda x: jnp.sum((x - 3) ** 2), ux.Simplex(), jnp.array([7.0])),
    ]
    for objective, geometry, start in cases:
        solution = minimize(objective, geometry, start)
        assert status(solution) == ux.Status.CONVERGED
        assert (int(solution.num_steps), int(solution.num_gradients)) == (0, 1)
        np.testing.assert_array_equal(solution.params, geometry.project(start))


@pytest.mark.parametrize("size", by_default([3], [1, 3]))
def test_linear_objectives_end_at_a_vertex(size: int) -> None:
    costs = jnp.arange(1.0, size + 1)
    for geometry, optimum in [
        (ux.L2Ball(), -np.linalg.norm(costs)),
        (ux.L1Ball(), -float(size)),
        (ux.Box(-1.0, 1.0), -float(costs.sum())),
        (ux.Simplex(), 1.0),
    ]:
        solution = minimize(jnp.vdot, geometry, jnp.full(size, 1 / size), args=(costs,))
        assert status(solution) == ux.Status.CONVERGED
        np.testing.assert_allclose(solution.value, optimum, rtol=1e-4)
        assert solution.lower_bound <= optimum


@pytest.mark.parametrize(
    "geometry", [ux.Simplex(), ux.EntropicSimplex()], ids=["plain", "entropic"]
)
@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-3])
def test_a_barrier_is_minimized_from_a_corner(
    geometry: ux.Geometry, distance: float, dtype: np.dtype
) -> None:
    start = jnp.full(5, distance, dtype).at[0].set(1 - 4 * distance)
    solution = minimize(barrier, geometry, start)
    assert status(solution) == ux.Status.CONVERGED
    np.testing.assert_allclose(solution.value, 5 * np.log(5), rtol=1e-4)
    assert solution.lower_bound <= 5 * np.log(5)
    assert solution.num_gradients < 150


@pytest.mark.parametrize(
    "geometry", [ux.Simplex(), ux.EntropicSimplex()], ids=["plain", "entropic"]
)
def test_an_optimal_design_is_found_where_plain_steps_make_the_matrix_singular(
    geometry: ux.Geometry,
) -> None:
    points = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
    optimum = optimal_design(points.astype(np.float64))

    def objective(weights: jax.Array) -> jax.Array:
        return -jnp.linalg.slogdet(jnp.einsum("i,ij,ik->jk", weights, points, points))[1]

    for start in (jnp.full(60, 1 / 60), jnp.eye(60)[0]):  # the second is singular
        solution = minimize(objective, geometry, start)
        assert status(solution) == ux.Status.CONVERGED
        assert solution.num_gradients <= 60
        assert solution.lower_bound <= optimum
        assert solution.value - optimum <= solution.gap


def optimal_design(points: np.ndarray) -> float:
    """Return min −log det Σᵢwᵢxᵢxᵢᵀ by the multiplicative algorithm, wᵢ ← wᵢ·xᵢᵀM⁻¹xᵢ/d.

    By Kiefer and Wolfowitz it is optimal where no xᵢᵀM⁻¹xᵢ exceeds d.
    """
    size, dimension = points.shape

    def state(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        matrix = points.T @ (weights[:, None] * points)
        return matrix, np.einsum("ij,jk,ik->i", points, np.linalg.inv(matrix), points)

    weights = np.full(size, 1 / size)
    for _ in range(5000):
        weights = weights * state(weights)[1] / dimension
    matrix, variances = state(weights)
    assert variances.max() <= dimension * (1 + 1e-6)
    return -float(np.linalg.slogdet(matrix)[1])


def test_starts_anywhere_lead_to_the_same_optimum() -> None:
    A32, B32 = jnp.asarray(A, jnp.float32), jnp.asarray(B, jnp.float32)
    values = []
    for start in (
        jnp.eye(8)[3],
        jnp.zeros(8),
        100 * jnp.ones(8),
        jnp.eye(8)[0] * np.nextafter(np.float32(1), np.float32(2)),
        jnp.eye(8)[0] * np.nextafter(np.float32(1), np.float32(0)),
    ):
        solution = minimize(problems.least_squares, ux.L1Ball(), start, args=(A32, B32), rtol=1e-5)
        assert status(solution) == ux.Status.CONVERGED
        assert ux.L1Ball().violation(solution.params) <= 1e-6
        values.append(float(solution.value))
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("geometry", [ux.Simplex(), ux.EntropicSimplex(), ux.L1Ball()])
@pytest.mark.parametrize("start", [[1 / 3, 1 / 3, 1 / 3], [0.0, 0.0, 1.0], [9.0, -4.0, 2.0]])
def test_a_small_quadratic_program_is_solved_to_its_exact_value(
    geometry: ux.Geometry, start: list[float]
) -> None:
    solution = minimize(problems.small_quadratic, geometry, jnp.array(start), rtol=1e-8)
    assert status(solution) == ux.Status.CONVERGED
    np.testing.assert_allclose(solution.value, -3.1753470, atol=1e-6)


def test_a_tolerance_beyond_the_dtype_ends_soon_and_says_so() -> None:
    for rtol in (0.0, 1e-12):
        solution = minimize(
            square_distance, ux.L2Ball(), jnp.zeros(5), args=(jnp.arange(5.0) + 0.3,), rtol=rtol
        )
        assert status(solution) == ux.Status.PRECISION_LIMIT
        assert solution.num_steps <= 200
        assert solution.gap <= 1e-5 * solution.value
        exact = (np.linalg.norm(np.arange(5.0) + np.float32(0.3)) - 1) ** 2
        assert solution.lower_bound <= exact


def test_an_unbounded_set_gives_a_bound_where_a_gradient_has_one() -> None:
    def solve(max_steps: int) -> ux.Solution:
        return minimize(
            square_distance,
            ux.Box(0.0, np.inf),
            jnp.zeros(3),
            (jnp.array([3.0, -1.0, 2.0]),),
            diameter=5.0,
            max_steps=max_steps,
        )

    first, last = solve(1), solve(200)
    assert int(first.num_gradients) == 2  # the start itself and one step
    assert status(last) == ux.Status.CONVERGED  # by points beyond the target in every entry
    assert last.lower_bound <= 1
    np.testing.assert_allclose(last.params, [3, 0, 2], atol=1e-3)


def test_too_few_steps_are_not_called_success() -> None:
    solution = minimize(problems.absolute_loss, ux.L2Ball(), jnp.ones(8), args=(A, B), max_steps=7)
    assert status(solution) == ux.Status.MAX_STEPS
    assert int(solution.num_steps) == 7
    assert solution.gap == solution.value - solution.lower_bound > 0


def test_an_objective_that_is_never_finite_is_reported() -> None:
    solution = minimize(lambda x: jnp.nan * jnp.sum(x), ux.L2Ball(), jnp.zeros(3))
    assert status(solution) == ux.Status.NONFINITE
    assert np.all(np.isfinite(solution.params))
    assert not solution.gap <= 1e30


def test_steps_into_a_region_without_values_are_shortened() -> None:
    """The best finite point is the answer, and its status claims nothing."""

    def walled(x: jax.Array) -> jax.Array:
        return jnp.sum((x - 2.0) ** 2) + jnp.where(x[0] > 0.2, jnp.nan, 0.0)

    solution = minimize(walled, ux.L2Ball(), jnp.zeros(3), max_steps=300)
    assert status(solution) in (ux.Status.MAX_STEPS, ux.Status.NONFINITE)
    assert solution.value < 10  # 12 at the start
    assert solution.params[0] <= 0.2

    trapped = minimize(
        lambda x: jnp.where(jnp.all(x == 0), 1.0, jnp.nan) + jnp.sum(x), ux.L2Ball(), jnp.zeros(3)
    )
    assert status(trapped) == ux.Status.NONFINITE
    assert trapped.value == 1
    assert int(trapped.num_steps) == MAX_REJECTIONS + 1


@pytest.mark.usefixtures("x64")
def test_a_batch_equals_a_loop_and_neither_hard_nor_nan_lanes_change_their_neighbours() -> None:
    easy = np.random.default_rng(5).normal(size=(6, 8))
    scales = np.ones((6, 8))
    scales[2] = np.logspace(0, -2.5, 8)  # the ill-conditioned lane
    targets = easy.copy()
    targets[4, 0] = np.nan

    def objective(x: jax.Array, scale: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.sum(scale * (x - target) ** 2)

    def solve(scale: jax.Array, target: jax.Array) -> ux.Solution:
        return ux.minimize(objective, ux.L2Ball(1.5), jnp.zeros(8), args=(scale, target), rtol=1e-7)

    solve_one, solve_all = jax.jit(solve), jax.jit(jax.vmap(solve))
    batch = solve_all(jnp.asarray(scales), jnp.asarray(targets))
    clean = solve_all(jnp.asarray(scales), jnp.asarray(easy))
    assert [ux.Status(int(s)).name for s in batch.status] == [
        "CONVERGED" if lane != 4 else "NONFINITE" for lane in range(6)
    ]
    for lane in (0, 1, 2, 3, 5):
        for field in ux.Solution._fields:
            np.testing.assert_array_equal(
                getattr(batch, field)[lane] if batch.aux is not getattr(batch, field) else 0,
                getattr(clean, field)[lane] if clean.aux is not getattr(clean, field) else 0,
            )
        alone = solve_one(jnp.asarray(scales[lane]), jnp.asarray(targets[lane]))
        np.testing.assert_allclose(batch.params[lane], alone.params, rtol=1e-6, atol=1e-9)
        assert abs(int(batch.num_steps[lane]) - int(alone.num_steps)) <= CHECK_EVERY
    assert int(batch.num_steps[2]) > 3 * int(batch.num_steps[0])


def test_a_batch_stops_when_its_slowest_lane_does() -> None:
    calls = []

    def solve(target: jax.Array) -> ux.Solution:
        return ux.minimize(
            square_distance,
            ux.L2Ball(),
            jnp.zeros(3),
            args=(target,),
            callback=lambda step, value, gap: calls.append(int(step)),
        )

    batch = jax.jit(jax.vmap(solve))(jnp.eye(3) * 2)
    jax.effects_barrier()
    assert len(calls) == 3 * -(-int(batch.num_steps.max()) // CHECK_EVERY)


def test_what_else_the_objective_returns_belongs_to_the_answer() -> None:
    def objective(x: jax.Array, target: jax.Array) -> tuple[jax.Array, dict]:
        return square_distance(x, target), {"x": x, "step": 3}

    solution = minimize(
        objective, ux.L2Ball(), jnp.zeros(2), args=(jnp.array([3.0, 4.0]),), has_aux=True
    )
    np.testing.assert_array_equal(solution.aux["x"], solution.params)
    assert solution.aux["step"] == 3
    assert minimize(square_distance, ux.L2Ball(), jnp.zeros(2), args=(0.0,)).aux is None


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_params_are_any_tree_in_their_own_dtypes(kind: str) -> None:
    target = jax.tree.map(lambda leaf: leaf.astype(kind), problems.as_tree(jnp.arange(9.0)))

    def objective(params: dict) -> jax.Array:
        parts = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), params, target)
        return sum(jax.tree.leaves(parts))

    start = jax.tree.map(jnp.zeros_like, target)
    solution = minimize(objective, ux.L2Ball(3.0), start, rtol=0.0)
    assert jax.tree.structure(solution.params) == jax.tree.structure(start)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(solution.params)} == {kind}
    unit = float(jnp.finfo(kind).eps)
    exact = (np.sqrt(204.0) - 3) ** 2
    np.testing.assert_allclose(float(solution.value), exact, rtol=4 * unit)
    assert solution.lower_bound <= exact
    assert solution.gap <= 100 * unit * exact


def test_without_params_the_start_is_the_interior_point_and_integers_are_promoted() -> None:
    ball = ux.L2Ball(1.0, center=jnp.array([5.0, 5.0]))
    solution = ux.minimize(square_distance, ball, args=(jnp.zeros(2),))
    np.testing.assert_allclose(solution.params, 5 - np.sqrt([0.5, 0.5]), atol=1e-2)
    solution = ux.minimize(square_distance, ball, jnp.array([5, 5]), args=(jnp.zeros(2),))
    assert jnp.issubdtype(solution.params.dtype, jnp.floating)


def test_penalties_are_part_of_value_and_bound() -> None:
    target = jnp.array([3.0, 0.05, -2.0])
    lasso = ux.Penalized(ux.L2Ball(10.0), ux.L1Norm(0.2))
    solution = minimize(square_distance, lasso, jnp.zeros(3), args=(target,), rtol=1e-5)
    exact = jnp.array([2.9, 0.0, -1.9])
    np.testing.assert_allclose(solution.params, exact, atol=2e-3)
    optimum = float(square_distance(exact, target) + 0.2 * jnp.sum(jnp.abs(exact)))
    assert solution.lower_bound <= optimum <= solution.value + 1e-6


def test_a_callback_sees_progress_from_inside_compiled_code() -> None:
    seen = []

    def callback(step: np.ndarray, value: np.ndarray, gap: np.ndarray) -> None:
        seen.append((int(step), float(value), float(gap)))

    solution = jax.jit(
        lambda: ux.minimize(
            problems.least_squares,
            ux.L2Ball(),
            jnp.zeros(8),
            args=(jnp.asarray(A), jnp.asarray(B)),
            rtol=1e-5,
            callback=callback,
        )
    )()
    jax.effects_barrier()
    steps, values, gaps = map(np.array, zip(*sorted(seen), strict=True))
    assert np.all(np.diff(steps) <= CHECK_EVERY)
    assert np.all(np.diff(values) <= 0)
    assert np.all(np.diff(gaps) <= 0)
    assert (steps[-1], values[-1], gaps[-1]) == (
        int(solution.num_steps),
        float(solution.value),
        float(solution.gap),
    )


def test_a_progress_bar_shows_step_value_and_gap_of_each_solve() -> None:
    page = io.StringIO()
    with ux.progress_bar("fit", file=page) as bar:
        for target in (2.0, 3.0):
            solution = ux.minimize(
                square_distance,
                ux.L2Ball(),
                jnp.zeros(2),
                args=(jnp.arange(2) + target,),
                callback=bar,
            )
            jax.effects_barrier()
    last = page.getvalue().split("\r")[-1]
    assert re.search(rf"fit: {int(solution.num_steps)} steps .*value {solution.value:.6g}", last)


def test_calling_again_with_new_arrays_compiles_nothing() -> None:
    traced = []

    def objective(x: jax.Array, target: jax.Array) -> jax.Array:
        traced.append(1)
        return square_distance(x, target)

    for radius in (1.0, 2.0):
        target = jnp.array([3.0, radius])
        ux.minimize(
            objective, ux.L2Ball(radius), jnp.zeros(2), args=(target,), rtol=radius, max_steps=9
        )
        traced, count = [], len(traced)
    assert count == 0
    assert not traced


GEOMETRIES: dict[str, Callable[[jax.Array], ux.Geometry]] = {
    "ball": ux.L2Ball,
    "l1_ball": ux.L1Ball,
    "simplex": ux.Simplex,
    "box": lambda r: ux.Box(-r / 3, r / 2),
    "entropic_simplex": ux.EntropicSimplex,
    "penalized": lambda r: ux.Penalized(ux.L2Ball(r), ux.L1Norm(0.02 * r)),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", by_default(["ball", "entropic_simplex", "penalized"], GEOMETRIES))
@pytest.mark.parametrize("radius", [0.7, 30.0])
def test_derivatives_of_the_solution_equal_finite_differences(name: str, radius: float) -> None:
    """On the boundary, where the derivative is the one on a face or a tangent, and inside."""
    rows = jnp.asarray(A)
    weights = jnp.asarray(np.random.default_rng(2).normal(size=8))

    def solution(radius: jax.Array, b: jax.Array) -> jax.Array:
        return ux.minimize(
            problems.least_squares,
            GEOMETRIES[name](radius),
            jnp.full(8, radius / 8),
            args=(rows, b),
            rtol=0.0,
        ).params

    direction = jnp.asarray(np.random.default_rng(3).normal(size=40))

    def along(t: jax.Array) -> jax.Array:
        return solution(radius + t, jnp.asarray(B) + t * direction)

    @jax.jit
    def derivatives(t: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        point, forward = jax.jvp(along, (t,), (1.0,))
        return point, forward, jax.grad(lambda t: jnp.vdot(weights, along(t)))(t)

    _, forward, reverse = derivatives(0.0)
    step = 1e-3
    differences = (derivatives(step)[0] - derivatives(-step)[0]) / (2 * step)
    np.testing.assert_allclose(forward, differences, atol=2e-4 * np.abs(differences).max())
    np.testing.assert_allclose(reverse, jnp.vdot(weights, forward), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("geometry", [ux.Simplex, ux.EntropicSimplex])
def test_derivatives_hold_where_weights_are_exactly_zero(
    geometry: Callable[[jax.Array], ux.Geometry], dtype: np.dtype
) -> None:
    """x = (c₁, c₂, c₃, 0) − (c₁ + c₂ + c₃ − s)/3·(1, 1, 1, 0)."""
    c = jnp.asarray([0.6, 0.3, 0.2, -40.0], dtype)

    def weights(scale: jax.Array, total: jax.Array) -> jax.Array:
        return ux.minimize(
            lambda x, c: jnp.sum((x - c) ** 2) / 2,
            geometry(total),
            jnp.full(4, 0.25, dtype),
            args=(scale * c,),
            rtol=10 * float(jnp.finfo(dtype).eps),
        ).params

    @jax.jit
    def answers(one: jax.Array) -> tuple[jax.Array, ...]:
        forward, reverse = (j(weights, argnums=(0, 1)) for j in (jax.jacfwd, jax.jacrev))
        return weights(one, one), forward(one, one), reverse(one, one)

    params, *jacobians = answers(jnp.ones((), dtype))
    assert params[3] == 0
    close = functools.partial(np.testing.assert_allclose, atol=2e-4)
    for by_scale, by_total in jacobians:
        close(by_scale, [0.7 / 3, -0.2 / 3, -0.5 / 3, 0])
        close(by_total, [1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.usefixtures("x64")
def test_the_derivative_of_the_value_is_that_of_the_envelope_and_bounds_have_none() -> None:
    rows, b = jnp.asarray(A), jnp.asarray(B)

    def solve(radius: jax.Array) -> ux.Solution:
        return ux.minimize(
            problems.least_squares, ux.L2Ball(radius), jnp.zeros(8), args=(rows, b), rtol=1e-12
        )

    @jax.jit
    def slopes(radius: jax.Array) -> tuple[ux.Solution, ux.Solution]:
        return solve(radius), jax.jvp(solve, (radius,), (1.0,))[1]

    solution, slope = slopes(0.7)
    gradient = jax.grad(problems.least_squares)(solution.params, rows, b)
    np.testing.assert_allclose(slope.value, -jnp.linalg.norm(gradient), rtol=1e-5)
    assert slope.gap == slope.lower_bound == 0


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("radius", [0.7, 30.0])
def test_a_start_at_the_solution_has_its_derivative_too(radius: float) -> None:
    """No step has been taken there, and the first gradient says nothing of the curvature."""
    rows = jnp.asarray(A)

    def solution(b: jax.Array, start: jax.Array) -> jax.Array:
        return ux.minimize(
            problems.least_squares, ux.L2Ball(radius), start, args=(rows, b), rtol=1e-13
        ).params

    @jax.jit
    def slope(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(lambda b: solution(b, start), (jnp.asarray(B),), (jnp.ones(40),))

    found, cold = slope(jnp.zeros(8))
    _, warm = slope(found)
    np.testing.assert_allclose(warm, cold, rtol=1e-4, atol=1e-5)
    _, exact = slope(jnp.linalg.lstsq(rows, jnp.asarray(B))[0])
    np.testing.assert_allclose(exact, cold, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("x64")
def test_derivatives_map_over_a_path_of_radii() -> None:
    rows, b = jnp.asarray(A), jnp.asarray(B)

    def norm(radius: jax.Array) -> jax.Array:
        return jnp.linalg.norm(
            ux.minimize(
                problems.least_squares, ux.L2Ball(radius), jnp.zeros(8), args=(rows, b), rtol=1e-11
            ).params
        )

    slopes = jax.jit(jax.vmap(jax.grad(norm)))(jnp.array([0.3, 0.6, 50.0]))
    np.testing.assert_allclose(slopes, [1, 1, 0], atol=1e-4)


@pytest.mark.usefixtures("x64")
def test_second_derivatives_are_right_in_every_mode() -> None:
    """On eˣ − tx the solution is log t inside the ball, and the value t − t·log t."""

    def solve(t: jax.Array) -> tuple[jax.Array, jax.Array]:
        solution = ux.minimize(
            lambda x, t: jnp.sum(jnp.exp(x) - t * x),
            ux.L2Ball(5.0),
            jnp.zeros(1),
            args=(t,),
            rtol=1e-13,
        )
        return solution.params[0], solution.value

    forward, reverse = jax.jacfwd, jax.jacrev
    modes = [(forward, forward), (forward, reverse), (reverse, reverse)]
    seconds = jax.jit(lambda t: [outer(inner(solve))(t) for outer, inner in modes])(2.0)
    np.testing.assert_allclose(seconds, np.tile([-1 / 4, -1 / 2], (3, 1)), rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_what_functions_close_over_has_the_derivative_of_an_argument() -> None:
    """The least ‖x − c‖² in the ball is (‖c‖ − r)²."""
    target, radius = jnp.array([3.0, 4.0]), jnp.array(1.5)

    def value(target: jax.Array, radius: jax.Array) -> jax.Array:
        ball = ux.FromProjection(
            lambda x: optax.projections.projection_l2_ball(x, radius),
            diameter=3.0,
            minimize_linear=lambda g: -radius * g / jnp.linalg.norm(g),
        )
        return ux.minimize(
            lambda x: jnp.sum((x - target) ** 2), ball, jnp.zeros(2), rtol=1e-12
        ).value

    for differentiate in (jax.grad, jax.jacfwd, lambda f, i: jax.grad(jax.jit(f), i)):
        by_target, by_radius = differentiate(value, (0, 1))(target, radius)
        np.testing.assert_allclose(by_target, [4.2, 5.6], rtol=1e-6)
        np.testing.assert_allclose(by_radius, -7.0, rtol=1e-6)
    radii = jnp.array([1.0, 2.0])
    slopes = jax.vmap(jax.jit(jax.grad(value, 1)), (None, 0))(target, radii)
    np.testing.assert_allclose(slopes, 2 * (radii - 5), rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(value, 1)(target, radius), 2.0, rtol=1e-6)


def test_integers_may_be_closed_over_too() -> None:
    """(‖c‖ − r)² for c = s·row has the derivative 2·(s·‖row‖ − r)·‖row‖ in s."""
    rows = jnp.array([[3.0, 4.0], [6.0, 8.0], [5.0, 12.0]])

    def slope(which: jax.Array, scale: jax.Array) -> jax.Array:
        def objective(x: jax.Array, scale: jax.Array) -> jax.Array:
            return jnp.sum((x - scale * rows[which]) ** 2)

        return jax.grad(
            lambda s: ux.minimize(objective, ux.L2Ball(), jnp.zeros(2), args=(s,)).value
        )(scale)

    which = jnp.arange(3)
    expected = [2 * (norm - 1) * norm for norm in (5.0, 10.0, 13.0)]
    for mapped in (jax.vmap(slope, (0, None)), jax.jit(jax.vmap(slope, (0, None)))):
        np.testing.assert_allclose(mapped(which, 1.0), expected, rtol=1e-4)
    np.testing.assert_allclose(jax.jit(slope)(which[1], 1.0), expected[1], rtol=1e-4)


def test_a_bound_above_an_attained_value_is_no_proof() -> None:
    solution = ux.minimize(lambda x: -jnp.sum(x**2), ux.L2Ball(2.0), jnp.array([0.3, 0.1]))
    assert solution.gap < -1
    assert solution.status == ux.Status.PRECISION_LIMIT
    assert "convex" in ux.Status(int(solution.status)).message


@pytest.mark.parametrize("kinks", [False, True])
def test_a_callback_changes_nothing(kinks: bool) -> None:
    def objective(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.abs(x - 0.3)) if kinks else problems.least_squares(x, A, B)

    def run(callback: Callable[..., None] | None) -> ux.Solution:
        return ux.minimize(
            objective, ux.L2Ball(), jnp.zeros(8), rtol=0.0, max_steps=300, callback=callback
        )

    jax.tree.map(np.testing.assert_array_equal, run(None), run(lambda step, value, gap: None))


def test_what_the_objective_returns_is_checked() -> None:
    minimize = functools.partial(ux.minimize, geometry=ux.L2Ball(), params=jnp.zeros(2))
    with pytest.raises(TypeError, match=r"must return a floating scalar.*give has_aux=True"):
        minimize(lambda x: (jnp.sum(x), x))
    with pytest.raises(TypeError, match=r"must return a floating scalar, not .*int32"):
        minimize(lambda x: jnp.sum(x).astype(jnp.int32))
    with pytest.raises(TypeError, match="with has_aux=True the objective must return a pair"):
        minimize(jnp.sum, has_aux=True)
    with pytest.raises(ValueError, match="max_steps must be at most 2147483647"):
        minimize(jnp.sum, max_steps=2**31)
    with pytest.raises(TypeError, match="max_steps must be an integer, not '10'"):
        minimize(jnp.sum, max_steps="10")


def test_wrong_arguments_are_named() -> None:
    minimize = functools.partial(ux.minimize, square_distance, ux.L2Ball(), args=(0.0,))
    with pytest.raises(ValueError, match="rtol must be non-negative and finite, not -1"):
        minimize(jnp.ones(2), rtol=-1.0)
    with pytest.raises(ValueError, match="atol must be non-negative"):
        minimize(jnp.ones(2), atol=np.nan)
    with pytest.raises(ValueError, match="max_steps must be an integer of at least 1, not 0"):
        minimize(jnp.ones(2), max_steps=0)
    with pytest.raises(TypeError, match="objective must be callable, not 3"):
        ux.minimize(3, ux.L2Ball(), jnp.ones(2))
    with pytest.raises(TypeError, match="callback must be callable"):
        minimize(jnp.ones(2), callback="tqdm")
    with pytest.raises(TypeError, match="args must be a tuple"):
        ux.minimize(square_distance, ux.L2Ball(), jnp.ones(2), args=jnp.ones(2))
    with pytest.raises(TypeError, match="real and imaginary"):
        minimize(jnp.ones(2, jnp.complex64))
    with pytest.raises(ValueError, match="no linear minimization oracle"):
        ux.minimize(square_distance, ux.Unconstrained(1.0), jnp.ones(2), args=(0.0,))
    with pytest.raises(ValueError, match="does not know the shape"):
        minimize()


def test_every_status_has_a_sentence() -> None:
    for member in ux.Status:
        assert member.message.endswith(".")
    assert jnp.int32(2) == ux.Status.PRECISION_LIMIT
