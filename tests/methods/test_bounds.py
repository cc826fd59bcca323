"""What the papers of the other methods prove, checked on runs of the methods."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import oracle, problems
from tests.methods.test_unixgrad import CASES, SIZE, feasible_start, fitted_slope
from tests.sampling import by_default

pytestmark = pytest.mark.usefixtures("x64")

A, _, B = problems.regression_data(30, SIZE)
HESSIAN = A.T @ A / 30
SMOOTHNESS = {
    "ball": np.linalg.eigvalsh(HESSIAN).max(),
    "simplex": np.linalg.eigvalsh(HESSIAN).max(),
    "entropic_simplex": np.abs(HESSIAN).max(),  # from ‖·‖₁ to the largest entry
}
ROUNDING = 1e-11


class Traced(NamedTuple):
    """What a run shows after every update, with a row each; and the optimum."""

    average: np.ndarray
    last: np.ndarray
    gradient: np.ndarray
    value_of_average: np.ndarray
    value_of_last: np.ndarray
    optimum: np.ndarray
    lowest: float


def traced(
    name: str,
    make: Callable[[ux.Geometry], optax.GradientTransformation],
    num_updates: int,
    objective: Callable = problems.least_squares,
) -> Traced:
    geometry, _ = CASES[name]
    args = (jnp.asarray(A), jnp.asarray(B))
    start = jnp.asarray(feasible_start())

    def see(info: ux.StepInfo) -> Any:
        values = objective(info.average, *args), objective(info.last, *args)
        return info.average, info.last, info.gradient, *values

    run = ux.solve(
        objective, geometry, start, num_updates, args=args, optimizer=make(geometry), trace=see
    )
    best = ux.minimize(objective, geometry, start, args=args, rtol=1e-12, max_steps=20_000)
    seen = map(np.asarray, run.trace)
    lowest = min(float(best.value), float(run.trace[3].min()))
    return Traced(*seen, np.asarray(best.params), lowest)


def squared_dual_norms(name: str, gradients: np.ndarray) -> np.ndarray:
    return np.array([CASES[name][1].squared_dual_norm(g) for g in gradients])


def distance_to_optimum(name: str, run: Traced) -> float:
    """Return D_R(x*, y_0)."""
    return CASES[name][1].divergence(run.optimum, feasible_start())


@pytest.mark.parametrize("name", by_default(["entropic_simplex"], SMOOTHNESS))
def test_mirror_prox_has_the_rate_of_smooth_functions(name: str) -> None:
    eta = 1 / SMOOTHNESS[name]
    run = traced(name, lambda k: ux.mirror_prox(k, eta), 2000)
    errors = run.value_of_average[::2] - run.lowest
    T = np.arange(1, 1001)
    assert np.all(errors <= distance_to_optimum(name, run) / (eta * T) + ROUNDING)
    assert errors[-1] < errors[0] / 10


@pytest.mark.parametrize("objective", [problems.least_squares, problems.absolute_loss])
@pytest.mark.parametrize("name", by_default(["entropic_simplex"], SMOOTHNESS))
def test_optimistic_mirror_descent_pays_for_the_change_of_gradients(
    name: str, objective: Callable
) -> None:
    """The average of x_1, ..., x_T, for each T, from the gradients g_1, ..., g_T seen there."""
    eta = 0.5 / SMOOTHNESS[name]
    run = traced(name, lambda k: ux.optimistic_mirror_descent(k, eta), 1000, objective)
    changes = np.diff(run.gradient, axis=0, prepend=0 * run.gradient[:1])
    spent = np.cumsum(squared_dual_norms(name, changes))
    T = np.arange(2, 1001)
    bound = (distance_to_optimum(name, run) / eta + eta / 2 * spent[1:]) / T
    assert np.all(run.value_of_average[:-1] - run.lowest <= bound + ROUNDING)


@pytest.mark.parametrize("objective", [problems.least_squares, problems.absolute_loss])
@pytest.mark.parametrize("name", by_default(["simplex"], ["ball", "simplex"]))
def test_universal_mirror_prox_keeps_the_regret_of_its_learning_rates(
    name: str, objective: Callable
) -> None:
    """(D²/η_T + ½·Σ η_t‖g_t − M_t‖*²)/T, its η_t taken from the points that it went through."""
    D = CASES[name][1].diameter
    run = traced(name, lambda k: ux.universal_mirror_prox(k, g0=0.5), 2000, objective)
    leads, anchors = run.last[::2], run.last[1::2]
    before = np.concatenate([feasible_start()[None], anchors[:-1]])
    moved = np.sum((leads - anchors) ** 2 + (leads - before) ** 2, axis=1)
    eta, squares = np.zeros(1000), 0.25
    for t in range(1000):
        eta[t] = D / np.sqrt(squares)
        squares += moved[t] / (5 * eta[t] ** 2)
    spent = np.cumsum(eta / 2 * squared_dual_norms(name, run.gradient[1::2] - run.gradient[::2]))
    bound = (D**2 / eta + spent) / np.arange(1, 1001)
    assert np.all(run.value_of_average[::2] - run.lowest <= bound + ROUNDING)


@pytest.mark.parametrize("name", by_default(["ball"], SMOOTHNESS))
def test_axgd_has_the_accelerated_rate(name: str) -> None:
    L = SMOOTHNESS[name]
    run = traced(name, lambda k: ux.axgd(k, L), 2000)
    T = np.arange(1, 1001)
    bound = 4 * L * distance_to_optimum(name, run) / (T * (T + 1))
    assert np.all(run.value_of_average[::2] - run.lowest <= bound + ROUNDING)


@pytest.mark.parametrize("objective", [problems.least_squares, problems.absolute_loss])
@pytest.mark.parametrize("name", by_default(["box"], ["ball", "box", "simplex"]))
def test_adagrad_norm_has_the_regret_of_its_gradients(name: str, objective: Callable) -> None:
    """√2·D₂·sqrt(Σ‖g_t‖²)/T for the average of x_1, ..., x_T."""
    run = traced(name, ux.adagrad_norm, 1000, objective)
    spent = np.cumsum(np.sum(run.gradient**2, axis=1))
    T = np.arange(2, 1001)
    bound = 2 * CASES[name][1].diameter * np.sqrt(spent[1:]) / T
    assert np.all(run.value_of_average[:-1] - run.lowest <= bound)


@pytest.mark.parametrize("b1", [0.0, 0.9])
@pytest.mark.parametrize("name", by_default(["ball"], ["ball", "box"]))
def test_amsgrad_has_the_regret_of_its_theorem_4(name: str, b1: float) -> None:
    """Σ f(x_t) − f*, with α_t = α/√t and a constant β₁, for each T."""
    alpha, b2, width = 0.3, 0.99, {"ball": 4.0, "box": 1.25}[name]
    run = traced(
        name,
        lambda k: ux.amsgrad(k, lambda step: alpha / jnp.sqrt(step + 1.0), b1, b2),
        1000,
        problems.absolute_loss,
    )
    first = problems.absolute_loss(jnp.asarray(feasible_start()), jnp.asarray(A), jnp.asarray(B))
    values = np.concatenate([[float(first)], run.value_of_last[:-1]])
    v, largest = np.zeros(SIZE), np.zeros((1000, SIZE))
    for t, g in enumerate(run.gradient):
        v = b2 * v + (1 - b2) * g**2
        largest[t] = np.maximum(v, largest[t - 1] if t else 0)
    roots = np.sqrt(largest).sum(axis=1)
    T = np.arange(1, 1001)
    norms = np.sqrt(np.cumsum(run.gradient**2, axis=0)).sum(axis=1)
    bound = (
        width**2 * np.sqrt(T) / (alpha * (1 - b1)) * roots
        + width**2 / (1 - b1) ** 2 * np.cumsum(b1 * roots * np.sqrt(T) / alpha)
        + alpha
        * np.sqrt(1 + np.log(T))
        / ((1 - b1) ** 2 * (1 - b1 / np.sqrt(b2)) * np.sqrt(1 - b2))
        * norms
    )
    assert np.all(np.cumsum(values - run.lowest) <= bound)


FACTORS = np.logspace(0, -1.5, SIZE)


def slope(
    make: Callable[[ux.Geometry], optax.GradientTransformation],
    num_updates: int,
    objective: Callable,
    radius: float,
) -> float:
    """Return the fitted slope of the error of the averages on ill-conditioned data in a ball."""
    rows, solution, _ = problems.regression_data(200, SIZE)
    rows = rows * FACTORS
    args = (jnp.asarray(rows), jnp.asarray(rows @ solution))
    geometry = ux.L2Ball(radius * float(np.linalg.norm(solution)))
    start = jnp.asarray(feasible_start())
    values = ux.solve(
        objective,
        geometry,
        start,
        num_updates,
        args=args,
        optimizer=make(geometry),
        trace=lambda info: objective(info.average, *args),
    ).trace
    lowest = ux.minimize(objective, geometry, start, args=args, rtol=1e-12, max_steps=20_000)
    steps = np.unique(np.geomspace(num_updates // 100, num_updates, 40).astype(int))
    errors = np.asarray(values)[steps - 1] - float(lowest.lower_bound)
    assert np.all(errors > 0)
    return fitted_slope(steps, errors)


@pytest.mark.parametrize("radius", [0.7, 1.5])
def test_accelegrad_has_the_accelerated_rate_inside_and_on_the_boundary(radius: float) -> None:
    assert slope(ux.accelegrad, 4000, problems.least_squares, radius) <= -1.8


def test_universal_mirror_prox_has_the_rate_of_smooth_functions() -> None:
    assert slope(ux.universal_mirror_prox, 8000, problems.least_squares, 0.7) <= -0.9


@pytest.mark.parametrize(
    "make", [ux.accelegrad, ux.universal_mirror_prox, ux.adagrad_norm], ids=lambda m: m.__name__
)
def test_kinks_cost_adaptive_methods_no_more_than_the_square_root(make: Callable) -> None:
    assert slope(make, 8000, problems.absolute_loss, 0.7) <= -0.45


def test_accelegrad_as_published_leaves_the_set_and_ours_stays() -> None:
    """Where the optimum is on the boundary: the published y is not projected."""

    def gradient(x: np.ndarray) -> np.ndarray:
        return A.T @ (A @ x - B) / 30

    published = oracle.accelegrad(
        gradient, feasible_start(), oracle.l2_ball(2.0), 300, 0.0, project=False
    )
    assert np.linalg.norm(published, axis=1).max() > 2.01
    run = traced("ball", ux.accelegrad, 300)
    assert np.linalg.norm(run.average, axis=1).max() <= 2.0 * (1 + 1e-12)
    assert abs(np.linalg.norm(run.optimum) - 2.0) < 1e-6
