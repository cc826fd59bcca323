"""The Frank-Wolfe gap is a bound on the error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux
from tests import problems


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", problems.GEOMETRIES)
def test_the_gap_bounds_the_error_along_a_run_and_closes(name: str) -> None:
    geometry = problems.GEOMETRIES[name]
    A, _, b = map(jnp.asarray, problems.regression_data(30, 9))

    def objective(params: dict) -> jax.Array:
        return problems.least_squares(problems.as_vector(params), A, b)

    start = geometry.project(problems.as_tree(jnp.zeros(9)))
    run = ux.solve(
        objective,
        geometry,
        start,
        20_000,
        offset=None,
        trace=lambda info: (
            objective(info.average),
            ux.frank_wolfe_gap(geometry, info.average, info.gradient),
        ),
    )
    values, gaps = run.trace
    assert np.all(values - values.min() <= gaps + 1e-12)
    assert gaps[-1] <= 1e-4 * gaps[0]


def test_the_gap_is_the_largest_decrease_of_the_linear_model(dtype: np.dtype) -> None:
    x = jnp.array([1.0, 0.0, 0.0], dtype)
    gradient = jnp.array([3.0, 1.0, 2.0], dtype)
    assert ux.frank_wolfe_gap(ux.Simplex(), x, gradient) == 2
    assert ux.frank_wolfe_gap(ux.L1Ball(), x, gradient) == 6
    np.testing.assert_allclose(
        ux.frank_wolfe_gap(ux.L2Ball(), x, gradient), 3 + np.sqrt(14), rtol=1e-6
    )
    assert ux.frank_wolfe_gap(ux.Box(0.0, 1.0), x, gradient) == 3
    assert ux.frank_wolfe_gap(ux.Box(0.0, 1.0), x, gradient).dtype == dtype


def test_gap_of_an_unbounded_set_is_infinite() -> None:
    gap = ux.frank_wolfe_gap(ux.Box(0.0, np.inf), jnp.ones(2), -jnp.ones(2))
    assert gap == np.inf


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("geometry", [ux.Simplex(), ux.EntropicSimplex(), ux.L1Ball()])
@pytest.mark.parametrize("start", [[1 / 3, 1 / 3, 1 / 3], [0.0, 0.0, 1.0], [9.0, -4.0, 2.0]])
def test_a_small_quadratic_program_reaches_its_exact_value(
    geometry: ux.Geometry, start: list[float]
) -> None:
    """From the center, from a vertex and from outside; p₃ = 0, so a line search is exact."""
    objective = problems.small_quadratic
    p = ux.solve(objective, geometry, jnp.array(start), 20_000, offset=None).params
    assert ux.frank_wolfe_gap(geometry, p, jax.grad(objective)(p)) <= 1e-6
    a = np.linspace(0, 1, 100_001)
    edge = np.stack([a, 1 - a, 0 * a], axis=1)
    exact = jax.vmap(objective)(edge).min()
    np.testing.assert_allclose(exact, -3.1753470, atol=1e-7)
    np.testing.assert_allclose(objective(p), exact, atol=1e-6)


def test_mismatched_gradients_are_named() -> None:
    with pytest.raises(ValueError, match="the gradient must have the shapes of params"):
        ux.frank_wolfe_gap(ux.L2Ball(), jnp.ones(2), jnp.ones(3))
