"""Geometries against an independent solver: Clarabel through cvxpy, in float64."""

from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux
from tests import problems
from tests.geometries import sets
from tests.geometries.catalogue import BASIC, CASES, Case, by_geometry, flat

pytestmark = pytest.mark.usefixtures("x64")


def solver_solutions(case: Case, y: np.ndarray, g: np.ndarray, size: float) -> list[np.ndarray]:
    """Return the solution of a prox problem, and the same solved once more in units of 1e-4 of it.

    How far they are apart is what the solver can do: where a constraint is active with a multiplier
    of nearly 0, that is less than 1e-6.
    """
    solutions = [np.zeros(case.size)]
    for unit in (1.0, 1e-4):
        change = cp.Variable(case.size)
        x = solutions[-1] + unit * change
        assert case.divergence is not None
        cost = size * (g @ x + case.penalty(x)) + case.divergence(x, y)
        problem = cp.Problem(cp.Minimize(cost / unit**2), case.constraints(x))
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
        try:
            problem.solve(solver=cp.CLARABEL, max_iter=500, **tolerances)
        except cp.SolverError:  # nothing left to improve
            continue
        solutions.append(x.value)
    return solutions[1:]


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("name", by_geometry(n for n, case in CASES.items() if case.divergence))
def test_steps_equal_the_solution_of_a_cone_solver(name: str) -> None:
    """argmin s·(⟨g, x⟩ + h(x)) + D_R(x, y), 20 random problems a set, to 1e-6."""
    case = CASES[name]
    assert case.divergence is not None
    rng = np.random.default_rng(0)

    @jax.jit
    def step(y: jax.Array, g: jax.Array, size: float) -> ux.Geometry:
        mirror = case.geometry.to_mirror(case.pack(y, float))
        return case.geometry.to_point(case.geometry.step(mirror, case.pack(g, float), size))

    errors = []
    for y in case.starts(rng, 20):
        g, size = rng.normal(size=case.size), rng.choice([0.1, 0.5, 2.0])
        point = flat(step(y, g, size))
        solutions = solver_solutions(case, y, g, size)
        errors.append(min(np.abs(point - x).max() for x in solutions))
        assert errors[-1] <= max(1e-6, 2 * np.abs(solutions[0] - solutions[-1]).max())
    assert np.mean(np.array(errors) <= 1e-6) >= 0.9
    assert np.median(errors) <= 1e-7


class LeastSquares(NamedTuple):
    """A random least squares problem on the set of a case, and its optimum by Clarabel."""

    start: Any
    args: tuple[jax.Array, jax.Array]
    cost: Callable[[Any], float]
    optimum: float


def objective(params: Any, A: jax.Array, b: jax.Array) -> jax.Array:
    vector = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])
    return problems.least_squares(vector, A, b)


def least_squares(case: Case) -> LeastSquares:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(25, case.size))
    b = A @ (2 * case.scale * rng.normal(size=case.size)) + rng.normal(size=25)
    x = cp.Variable(case.size)
    loss = cp.sum_squares(A @ x - b) / 50
    problem = cp.Problem(cp.Minimize(loss + case.penalty(x)), case.constraints(x))
    problem.solve(solver=cp.CLARABEL)
    args = (jnp.asarray(A), jnp.asarray(b))
    return LeastSquares(
        start=case.geometry.interior_point(case.pack(np.zeros(case.size), float)),
        args=args,
        cost=lambda params: float(objective(params, *args) + case.geometry.penalty(params)),
        optimum=problem.value,
    )


@pytest.mark.parametrize("name", by_geometry(CASES, kept=BASIC))
def test_unixgrad_reaches_the_known_optimum(name: str) -> None:
    """2,000 iterations on least squares, relative to the error of the start, to 1e-5."""
    case = CASES[name]
    problem = least_squares(case)

    @jax.jit
    def solve(*args: jax.Array) -> ux.Run:
        return ux.solve(objective, case.geometry, problem.start, 2000, args=args, offset=None)

    run = solve(*problem.args)
    scale = problem.cost(problem.start) - problem.optimum
    error = problem.cost(run.params) - problem.optimum
    assert float(case.geometry.violation(run.params)) <= 1e-12
    assert abs(error) <= 1e-5 * scale
    if not case.unbounded:
        gradient = jax.grad(objective)(run.params, *problem.args)
        gap = ux.frank_wolfe_gap(case.geometry, run.params, gradient)
        assert error <= gap + 1e-7
        assert gap <= 1e-2 * scale


TEMPLATE = {
    "mirror_prox": lambda k, L: ux.mirror_prox(k, 1 / L),
    "optimistic_mirror_descent": lambda k, L: ux.optimistic_mirror_descent(k, 1 / (2 * L)),
    "universal_mirror_prox": lambda k, L: ux.universal_mirror_prox(k),
    "axgd": lambda k, L: ux.axgd(k, L),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", by_geometry(CASES))
def test_other_methods_of_any_mirror_map_come_near_the_optimum(name: str) -> None:
    """L bounds the smoothness from the norm of each set to its dual: ‖·‖₂ is at most each norm."""
    case = CASES[name]
    problem = least_squares(case)
    L = float(jnp.linalg.norm(problem.args[0], 2)) ** 2 / 25
    scale = problem.cost(problem.start) - problem.optimum
    for make in TEMPLATE.values():

        @jax.jit
        def solve(*args: jax.Array, make: Callable = make) -> ux.Run:
            optimizer = make(case.geometry, L)
            return ux.solve(
                objective, case.geometry, problem.start, 1000, args=args, optimizer=optimizer
            )

        run = solve(*problem.args)
        assert float(case.geometry.violation(run.params)) <= 1e-12
        near = 0.2 if case.unbounded else 0.05  # D there is a guess, and the optimum farther off
        assert problem.cost(run.params) - problem.optimum <= near * scale


@pytest.mark.slow
@pytest.mark.parametrize("name", by_geometry(n for n, case in CASES.items() if not case.unbounded))
def test_minimize_proves_the_known_optimum_on_every_set(name: str) -> None:
    case = CASES[name]
    problem = least_squares(case)

    @jax.jit
    def solve(*args: jax.Array) -> ux.Solution:
        return ux.minimize(objective, case.geometry, problem.start, args=args, rtol=1e-6)

    solution = solve(*problem.args)
    assert solution.status == ux.Status.CONVERGED
    assert float(case.geometry.violation(solution.params)) <= 1e-12
    assert solution.lower_bound <= problem.optimum + 1e-8 * abs(problem.optimum)
    assert problem.optimum <= solution.value + 1e-8 * abs(problem.optimum)
    np.testing.assert_allclose(solution.value, problem.cost(solution.params), rtol=1e-12)
    assert solution.num_gradients <= 60


def test_matrix_exponentiated_gradient_equals_the_matrix_functions() -> None:
    """cvxpy has no von Neumann divergence: X⁺ ∝ exp(log Y − s·G) by SciPy."""
    linalg = pytest.importorskip("scipy.linalg")
    geometry = ux.EntropicSpectrahedron(1.5)
    rng = np.random.default_rng(2)
    for y in sets.spectrahedron(rng, 20, 4, 1.5).reshape(-1, 4, 4):
        anchor = 0.9 * y + 0.1 * 1.5 * np.eye(4) / 4
        G = rng.normal(size=(4, 4))
        power = linalg.expm(linalg.logm(anchor / 1.5) - 0.7 * (G + G.T) / 2 / 1.5)
        step = geometry.step(geometry.to_mirror(jnp.asarray(anchor)), jnp.asarray(G), 0.7)
        expected = 1.5 * power / np.trace(power)
        np.testing.assert_allclose(geometry.to_point(step), expected, atol=1e-12)


def test_exponentiated_gradient_with_signs_equals_its_formula() -> None:
    """Weights ∝ (p·e^{−s·g/r}, m·e^{s·g/r}), from the weights of least entropy."""
    geometry = ux.EntropicL1Ball(2.0)
    rng = np.random.default_rng(3)
    for y in 0.9 * sets.l1_ball(rng, 20, 6, 2.0):
        g = rng.normal(size=6)
        p, m = sets.signed_weights(y, 2.0)
        p, m = p * np.exp(-0.7 * g / 2), m * np.exp(0.7 * g / 2)
        step = geometry.step(geometry.to_mirror(jnp.asarray(y)), jnp.asarray(g), 0.7)
        expected = 2 * (p - m) / (p + m).sum()
        np.testing.assert_allclose(geometry.to_point(step), expected, atol=1e-12)


def lasso_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    A = rng.normal(size=(100, 30))
    return A, A[:, :4] @ np.array([3.0, -2.0, 1.5, 1.0]) + 0.1 * rng.normal(size=100)


@pytest.mark.parametrize("geometry", [ux.Unconstrained(10.0), ux.L2Ball(10.0), ux.Box(-5.0, 5.0)])
def test_the_lasso_reaches_the_optimum_of_cvxpy(geometry: ux.Geometry) -> None:
    A, b = lasso_data()
    x = cp.Variable(30)
    cost = cp.sum_squares(A @ x - b) / 200 + 0.2 * cp.norm1(x)
    problem = cp.Problem(cp.Minimize(cost))
    problem.solve(solver=cp.CLARABEL)
    lasso = ux.Penalized(geometry, ux.L1Norm(0.2))
    args = (jnp.asarray(A), jnp.asarray(b))
    run = ux.solve(problems.least_squares, lasso, jnp.zeros(30), 20_000, args=args, offset=None)
    value = problems.least_squares(run.params, *args) + lasso.penalty(run.params)
    np.testing.assert_allclose(value, problem.value, rtol=1e-6)
    np.testing.assert_allclose(run.params, x.value, atol=1e-3)
    if not isinstance(geometry, ux.Unconstrained):
        gradient = jax.grad(problems.least_squares)(run.params, *args)
        gap = ux.frank_wolfe_gap(lasso, run.params, gradient)
        assert value - problem.value <= gap <= 1e-3 * value


def test_nuclear_norm_least_squares_reaches_the_optimum_of_cvxpy() -> None:
    """Matrix completion: 60 of 80 entries of a matrix of rank 2, with a nuclear-norm penalty."""
    rng = np.random.default_rng(5)
    target = rng.normal(size=(10, 2)) @ rng.normal(size=(2, 8))
    seen = (rng.permutation(80) < 60).reshape(10, 8).astype(float)
    X = cp.Variable((10, 8))
    cost = cp.sum_squares(cp.multiply(seen, X - target)) / 2 + 1.5 * cp.normNuc(X)
    problem = cp.Problem(cp.Minimize(cost))
    problem.solve(solver=cp.CLARABEL)

    def objective(X: jax.Array) -> jax.Array:
        return jnp.sum((seen * (X - target)) ** 2) / 2

    geometry = ux.Penalized(ux.L2Ball(30.0), ux.NuclearNorm(1.5))
    run = ux.solve(objective, geometry, jnp.zeros((10, 8)), 3000, offset=None)
    value = objective(run.params) + geometry.penalty(run.params)
    np.testing.assert_allclose(value, problem.value, rtol=1e-6)
    gap = ux.frank_wolfe_gap(geometry, run.params, jax.grad(objective)(run.params))
    assert value - problem.value <= gap + 1e-6
