"""Derivatives against central differences."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np


def assert_derivatives(
    function: Callable[..., jax.Array],
    at: Sequence[np.ndarray],
    directions: Sequence[np.ndarray],
    **tolerances: float,
) -> None:
    """Check forward and reverse derivatives of a scalar, one argument moved at a time."""
    alone = [
        tuple(d if i == index else np.zeros(np.shape(d)) for i, d in enumerate(directions))
        for index in range(len(at))
    ]

    @jax.jit
    def derivatives() -> tuple[jax.Array, list[jax.Array]]:
        _, forward = jax.linearize(function, *at)
        reverse = jax.linear_transpose(forward, *at)(1.0)
        each = jax.vmap(forward)(*(np.stack(tangents) for tangents in zip(*alone, strict=True)))
        return each, [jnp.vdot(r, d) for r, d in zip(reverse, directions, strict=True)]

    h = 1e-6
    value = jax.jit(function)
    for tangents, forward, reverse in zip(alone, *derivatives(), strict=True):
        up, down = (value(*(a + k * d for a, d in zip(at, tangents, strict=True))) for k in (h, -h))
        expected = (up - down) / (2 * h)
        np.testing.assert_allclose(forward, expected, **tolerances)
        np.testing.assert_allclose(reverse, expected, **tolerances)
