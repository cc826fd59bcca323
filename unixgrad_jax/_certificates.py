"""Bounds on the error of a point that need no knowledge of the optimum."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Params, Scalar
from unixgrad_jax.geometries import Geometry


def frank_wolfe_gap(geometry: Geometry, params: Params, gradient: Gradient) -> Array:
    """Return max_{v∈K} ⟨∇f(x), x − v⟩ + h(x) − h(v), which bounds f(x) + h(x) − min_K (f + h).

    For convex f and a feasible x this is a proven bound on the error, if the gradient is exact.
    With a noisy gradient it is an estimate.

    Args:
        geometry: the constraint set; needs its linear minimization oracle.
        params: x, a point of K.
        gradient: ∇f(x), with the structure and shapes of params.

    Returns:
        A scalar in units of f, non-negative up to rounding.

    Raises:
        ValueError: if the gradient does not match the params.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> x = jnp.array([1.0, 0.0])
        >>> ux.frank_wolfe_gap(ux.Simplex(), x, gradient=jnp.array([3.0, 1.0]))
        Array(2., dtype=float32)
    """
    _trees.check_same_structure("the gradient", gradient, params)
    wide = _trees.unify(params)
    vertex = geometry.minimize_linear(_trees.as_dtype(gradient, _trees.wide_dtype(wide)))
    difference = jax.tree.map(jnp.subtract, wide, vertex)
    return _trees.vdot(gradient, difference) + geometry.penalty(wide) - geometry.penalty(vertex)


class Cut(NamedTuple):
    """A linear function below f, c + ⟨g, ·⟩: the tangent of a convex f, or a mean of tangents.

    Attributes:
        slope: g.
        constant: c, f(x) − ⟨g, x⟩ for the tangent at x.
        magnitude: the size of what c is a difference of, |f(x)| + Σ|gᵢxᵢ|, in which it rounds.
    """

    slope: Gradient
    constant: Array
    magnitude: Array


def tangent(geometry: Geometry, params: Params, value: Array, gradient: Gradient) -> Cut:
    """Return the cut f(x) + ⟨∇f(x), · − x⟩.

    Args:
        geometry: the set and its penalty h.
        params: x, in the wide dtype like all that follows.
        value: f(x) + h(x).
        gradient: ∇f(x).
    """
    penalty = geometry.penalty(params)
    product, size = _inner(gradient, params)
    return Cut(
        slope=gradient,
        constant=value - penalty - product,
        magnitude=jnp.abs(value) + jnp.abs(penalty) + size,
    )


def tangent_bound(
    geometry: Geometry, params: Params, value: Array, gradient: Gradient, rounding: Scalar
) -> Array:
    """Return the `lower_bound` that the `tangent` gives, from fewer sums."""
    vertex = geometry.minimize_linear(gradient)
    before, after = geometry.penalty(params), geometry.penalty(vertex)
    change, size = _trees.totals(
        [
            jax.tree.map(lambda g, v, x: g * (v - x), gradient, vertex, params),
            jax.tree.map(
                lambda g, v, x: jnp.abs(g) * (jnp.abs(v) + jnp.abs(x)), gradient, vertex, params
            ),
        ],
        value.dtype,
    )
    magnitude = jnp.abs(value) + jnp.abs(before) + jnp.abs(after) + size
    return value + change + (after - before) - rounding * magnitude


def mix(cut: Cut, other: Cut, weight: Array) -> Cut:
    """Return (1 − θ)·cut + θ·other, again a cut."""
    return jax.tree.map(lambda a, b: a + weight * (b - a), cut, other)


def lower_bound(geometry: Geometry, cut: Cut, rounding: Scalar) -> Array:
    """Return the least value of cut + h on K, made smaller by what rounding may have added.

    Args:
        geometry: the set, with its linear minimization oracle.
        cut: a linear function below f.
        rounding: the relative rounding error that the cut may have, in its own magnitude.
    """
    vertex = geometry.minimize_linear(cut.slope)
    penalty = geometry.penalty(vertex)
    product, size = _inner(cut.slope, vertex)
    magnitude = cut.magnitude + size + jnp.abs(penalty)
    return cut.constant + product + penalty - rounding * magnitude


def _inner(a: Params, b: Params) -> tuple[Array, ...]:
    """Return ⟨a, b⟩ and Σ|aᵢbᵢ|."""
    products = jax.tree.map(jnp.multiply, a, b)
    return _trees.totals([products, jax.tree.map(jnp.abs, products)], _trees.wide_dtype(a))
