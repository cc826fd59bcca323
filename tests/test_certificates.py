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


def test_mismatched_gradients_are_named() -> None:
    with pytest.raises(ValueError, match="the gradient must have the shapes of params"):
        ux.frank_wolfe_gap(ux.L2Ball(), jnp.ones(2), jnp.ones(3))
