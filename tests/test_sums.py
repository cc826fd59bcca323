"""Sums by strips: the plain sum, in value, derivatives and batches, for any size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unixgrad_jax._sums import LEAST, MOST, STRIPS, sum_of

SIZES = [0, 1, LEAST - 1, LEAST, LEAST + STRIPS - 1, 100, MOST - 1, MOST, MOST + 1]


@pytest.mark.parametrize("shape", [*((size,) for size in SIZES), (9, 11), (8, 2, 5)])
def test_a_sum_by_strips_is_the_sum(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    exact = np.sum(values, dtype=np.float64)
    np.testing.assert_allclose(sum_of(jnp.asarray(values)), exact, atol=1e-6 * values.size)
    broken = jnp.asarray(values).ravel().at[-1:].set(jnp.nan)
    assert jnp.isnan(sum_of(broken)) == bool(values.size)


def test_its_derivatives_are_those_of_the_sum_in_every_mode() -> None:
    def cube(x: jax.Array) -> jax.Array:
        return sum_of(jnp.sin(x)) ** 3

    def plain(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x)) ** 3

    x = jnp.linspace(-1.0, 2.0, 100)
    rows = jnp.stack([x, x**2])
    for differentiate in (jax.grad, jax.jacfwd, jax.hessian):
        for at, batched in ((x, False), (rows, True)):
            ours, theirs = (
                jax.vmap(differentiate(f))(at) if batched else differentiate(f)(at)
                for f in (cube, plain)
            )
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-2)


def test_a_batch_is_summed_row_by_row_without_strips() -> None:
    rows = jax.random.normal(jax.random.key(0), (5, 100))
    np.testing.assert_array_equal(jax.vmap(sum_of)(rows), jnp.sum(rows, axis=1))
    assert "stablehlo.slice" in jax.jit(sum_of).lower(rows[0]).as_text()
    assert "stablehlo.slice" not in jax.jit(jax.vmap(sum_of)).lower(rows).as_text()
    nested = jax.vmap(jax.vmap(sum_of))(rows.reshape(5, 1, 100))
    np.testing.assert_array_equal(nested[:, 0], jnp.sum(rows, axis=1))


@pytest.mark.usefixtures("x64")
def test_counts_stay_in_their_dtype() -> None:
    for size in (10, 100):
        ones = jnp.ones((3, size), jnp.int32)
        assert sum_of(ones).dtype == jax.vmap(sum_of)(ones).dtype == jnp.int32
        np.testing.assert_array_equal(jax.vmap(sum_of)(ones), 3 * [size])
