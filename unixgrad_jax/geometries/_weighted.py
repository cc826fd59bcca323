"""Projections in a diagonal norm, for methods that scale each coordinate by itself."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Params
from unixgrad_jax.geometries._balls import L2Ball
from unixgrad_jax.geometries._base import Geometry
from unixgrad_jax.geometries._box import Box
from unixgrad_jax.geometries._combinators import Batched, Product
from unixgrad_jax.geometries._custom import Unconstrained
from unixgrad_jax.geometries._kinds import components
from unixgrad_jax.geometries._l1_ball import L1Ball, l1_norm
from unixgrad_jax.geometries._simplex import Simplex

LEAST_RATIO = 1e-6
"""Weights below this share of the largest count as this share of it."""


@functools.singledispatch
def project_weighted(geometry: Geometry, point: Params, weights: Params) -> Params:
    """Return argmin_{x∈K} Σwᵢ(xᵢ − vᵢ)².

    A clip on a `Box`; on `L2Ball`, `Simplex` and `L1Ball` a function of one multiplier, found by
    Newton's method from the side where it is monotone; part by part on `Product` and `Batched`.

    Args:
        geometry: the set.
        point: v, all leaves in one dtype, at least float32.
        weights: w ≥ 0, like v. Only their ratios matter; those below 10⁻⁶ of the largest of a set
            count as 10⁻⁶ of it, and where all are 0 they count as equal.

    Raises:
        TypeError: if there is no such projection on the set; names those that have one.
    """
    del point, weights
    raise TypeError(
        f"{type(geometry).__name__} has no projection in a diagonal norm. These have: Box, L2Ball, "
        "Simplex, L1Ball, Unconstrained, and Product and Batched of them."
    )


def check_weighted_projection(geometry: Geometry) -> None:
    """Check that `project_weighted` takes this geometry.

    Raises:
        TypeError: if it does not; names those that it takes.
    """
    missing = project_weighted.dispatch(object)
    for component in components(geometry):
        if project_weighted.dispatch(type(component)) is missing:
            missing(component, (), ())


@project_weighted.register(Box)
@project_weighted.register(Unconstrained)
def _(geometry: Geometry, point: Params, weights: Params) -> Params:
    del weights
    return geometry.project(point)


@project_weighted.register
def _(geometry: Product, point: Params, weights: Params) -> Params:
    return geometry.map(project_weighted, point, weights)


@project_weighted.register
def _(geometry: Batched, point: Params, weights: Params) -> Params:
    return geometry.map(project_weighted, point, weights)


@project_weighted.register
def _(geometry: L2Ball, point: Params, weights: Params) -> Params:
    """Return c + w·d/(w + λ) for d = v − c, with the λ ≥ 0 at which ‖x − c‖₂ = r.

    Newton's method on 1/‖x(λ) − c‖₂ (Moré and Sorensen, "Computing a trust region step", SIAM J.
    Sci. Stat. Comput. 4, 1983) from a λ that is too small.
    """
    dtype = _trees.wide_dtype(point)
    radius = _trees.scalar("radius", geometry.radius, dtype)
    center = geometry.interior_point(point)
    offset = jax.tree.map(jnp.subtract, point, center)
    ratios = _ratios(weights, dtype)

    def shrunk(multiplier: Array, offset: Params, ratios: Params) -> Params:
        return jax.tree.map(lambda d, w: w / (w + multiplier) * d, offset, ratios)

    def norm_and_slope(multiplier: Array, offset: Params, ratios: Params) -> tuple[Array, Array]:
        """Return ‖x(λ) − c‖₂, and how fast it falls."""
        moved = shrunk(multiplier, offset, ratios)
        norm = jnp.sqrt(_trees.vdot(moved, moved))
        parts = jax.tree.map(lambda x, w: x**2 / (w + multiplier), moved, ratios)
        return norm, _trees.total(parts, dtype) / norm

    def on_the_sphere() -> Params:
        fixed, limit = lax.stop_gradient(((offset, ratios), radius))

        def newton(multiplier: Array) -> Array:
            norm, slope = norm_and_slope(multiplier, *fixed)
            return multiplier + norm / limit * (norm - limit) / slope

        length = jnp.sqrt(_trees.vdot(fixed[0], fixed[0]))
        start = _trees.least(fixed[1], dtype) * (length / limit - 1)
        multiplier = _increase(newton, jnp.maximum(start, 0))
        norm, slope = norm_and_slope(multiplier, offset, ratios)
        multiplier += (norm - radius) / lax.stop_gradient(slope)
        return jax.tree.map(jnp.add, center, shrunk(multiplier, offset, ratios))

    outside = (_trees.vdot(offset, offset) > radius**2) & (radius > 0)
    return geometry.project(lax.cond(outside, on_the_sphere, lambda: point))


@project_weighted.register
def _(geometry: Simplex, point: Params, weights: Params) -> Params:
    dtype = _trees.wide_dtype(point)
    target = _trees.scalar("total", geometry.total, dtype)
    return _shrink_to_sum(point, _ratios(weights, dtype), target)


@project_weighted.register
def _(geometry: L1Ball, point: Params, weights: Params) -> Params:
    dtype = _trees.wide_dtype(point)
    radius = _trees.scalar("radius", geometry.radius, dtype)

    def shrunk() -> Params:
        sizes = _shrink_to_sum(jax.tree.map(jnp.abs, point), _ratios(weights, dtype), radius)
        return jax.tree.map(lambda v, size: jnp.sign(v) * size, point, sizes)

    return lax.cond(l1_norm(point) > radius, shrunk, lambda: point)


def _shrink_to_sum(values: Params, ratios: Params, target: Array) -> Params:
    """Return max(vᵢ − τ/wᵢ, 0), with τ such that the entries of the whole tree sum to `target`.

    Newton's method on a convex, decreasing, piecewise linear function, from below. As in
    `shrink_to_sum`, the last step is applied to the result, which makes the sum exact to rounding
    and carries the derivatives.
    """
    dtype = target.dtype
    inverse = jax.tree.map(lambda w: 1 / w, ratios)

    def above(threshold: Array, values: Params, inverse: Params) -> tuple[Params, Array]:
        """Return the entries above the threshold, and the slope of their sum."""
        parts = jax.tree.map(lambda v, i: v - threshold * i, values, inverse)
        slopes = jax.tree.map(lambda x, i: jnp.where(x <= 0, 0, i), parts, inverse)
        kept = jax.tree.map(lambda x: jnp.where(x <= 0, 0, x), parts)
        return kept, _trees.total(slopes, dtype)

    def correction(threshold: Array, values: Params, inverse: Params, target: Array) -> Array:
        kept, slope = above(threshold, values, inverse)
        return (_trees.total(kept, dtype) - target) / jnp.where(slope > 0, slope, 1)

    fixed = lax.stop_gradient((values, inverse, target))
    singles = jax.tree.map(lambda v, i: (v - fixed[2]) / i, *fixed[:2])
    everything = (_trees.total(fixed[0], dtype) - fixed[2]) / _trees.total(fixed[1], dtype)
    threshold = _increase(
        lambda threshold: threshold + correction(threshold, *fixed),
        jnp.maximum(_trees.largest(singles, dtype), everything),
    )
    kept, _ = above(threshold, values, inverse)
    last = correction(threshold, values, inverse, target)
    return jax.tree.map(
        lambda x, i: jnp.where(x <= 0, 0, _trees.at_least(x - last * i, 0)), kept, inverse
    )


def _ratios(weights: Params, dtype: jnp.dtype) -> Params:
    """Return w/max w, at least `LEAST_RATIO`."""
    top = lax.stop_gradient(_trees.largest(weights, dtype))
    known = top > 0
    return jax.tree.map(
        lambda w: jnp.where(known, _trees.at_least(w / jnp.where(known, top, 1), LEAST_RATIO), 1),
        weights,
    )


def _increase(newton: Callable[[Array], Array], start: Array) -> Array:
    """Return where Newton's method stops to increase its argument by more than rounding."""
    least = 4 * jnp.finfo(start.dtype).eps

    def refine(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        value, _ = carry
        refined = newton(value)
        advances = refined > value + least * jnp.abs(value)
        return jnp.where(advances, refined, value), advances

    return lax.while_loop(lambda carry: carry[1], refine, (start, jnp.array(True)))[0]
