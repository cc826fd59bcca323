"""No certificate is false: random problems, sets, scales and dtypes, against float64 optima."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux
from tests.precision import x64_set
from tests.sampling import by_default

ROWS, COLUMNS = 12, 5
GEOMETRIES = {
    "ball": ux.L2Ball,
    "box": lambda r: ux.Box(-r, r),
    "l1_ball": ux.L1Ball,
    "simplex": ux.Simplex,
    "entropic_simplex": ux.EntropicSimplex,
    "penalized": lambda r: ux.Penalized(ux.L2Ball(r), ux.L1Norm(0.1)),
}


def objective(x: jax.Array, A: jax.Array, b: jax.Array, factor: jax.Array, loss: int) -> jax.Array:
    """Return one of three mean losses of Ax and b: squares, logistic, absolute values."""
    scores = A @ x
    losses = jax.lax.switch(
        loss,
        [
            lambda: (scores - b) ** 2,
            lambda: jax.nn.softplus(-b * scores),
            lambda: jnp.abs(scores - b),
        ],
    )
    return factor * jnp.mean(losses)


def minimize(
    name: str, start: jax.Array, data: list[jax.Array], loss: int, rtol: float
) -> ux.Solution:
    radius, *args = data
    return ux.minimize(
        objective, GEOMETRIES[name](radius), start, args=(*args, loss), rtol=rtol, max_steps=2000
    )


@pytest.mark.parametrize("name", by_default(["simplex"], GEOMETRIES))
def test_the_lower_bound_is_below_the_optimum(name: str) -> None:
    """The reference is a second run, in float64 and from the answer, on the data the first saw."""

    @hypothesis.settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @hypothesis.given(
        seed=st.integers(0, 2**31 - 1),
        loss=st.integers(0, 2),
        radius=st.sampled_from([1e-2, 1.0, 30.0]),
        factor=st.sampled_from([1e-6, 1.0, 1e6]),
        condition=st.sampled_from([0.0, 1.5, 3.0]),
        noise=st.sampled_from([0.0, 1e-3, 1.0]),
        kind=st.sampled_from(["bfloat16", "float32", "float64"]),
        rtol=st.sampled_from([1e-2, 1e-6, 0.0]),
    )
    def holds(
        seed: int,
        loss: int,
        radius: float,
        factor: float,
        condition: float,
        noise: float,
        kind: str,
        rtol: float,
    ) -> None:
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(ROWS, COLUMNS)) * np.logspace(0, -condition, COLUMNS)
        b = A @ rng.normal(size=COLUMNS) + noise * rng.normal(size=ROWS)
        start = jnp.asarray(rng.normal(size=COLUMNS), kind)
        data = [jnp.asarray(array, kind) for array in (radius, A, b, factor)]
        found = minimize(name, start, data, loss, rtol)
        exact = [array.astype(jnp.float64) for array in data]
        reference = minimize(name, found.params.astype(jnp.float64), exact, loss, 1e-12)
        assert float(found.lower_bound) <= float(reference.value)
        assert found.gap == found.value - found.lower_bound
        if int(found.status) == ux.Status.CONVERGED:
            size = max(abs(float(found.value)), abs(float(found.lower_bound)))
            assert float(found.gap) <= rtol * size * (1 + 1e-6)

    with x64_set(True):
        holds()
