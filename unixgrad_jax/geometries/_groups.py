"""The ball of the group norm Σ‖x_g‖₂."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._balls import along, euclidean_ball_diameter
from unixgrad_jax.geometries._base import (
    FullSpace,
    bring_near,
    divide,
    gradient_step,
    limit_direction,
    root,
    without_overflow,
    zeros,
)
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._threshold import below_largest, shrink_to_sum

Axis = int | tuple[int, ...] | None


@register
class GroupBall(FullSpace):
    """The ball Σ_g ‖x_g‖₂ ≤ r of the group lasso with R = ½‖·‖₂².

    A group is what the norm is taken over: the entries along `axis` of a leaf, for each position
    along its other axes; the sum runs over the groups of all leaves. So for a matrix, axis=-1
    makes each row a group, and None makes each leaf one group.

    Norm and dual norm ‖·‖₂; D = √2·r, exactly. The projection shrinks the group norms to their ℓ1
    ball, some 6 flops an entry and 4 to 12 passes over the groups. `step` takes the part s·max‖g_g‖
    that all active groups have in common out of the threshold before it rounds.

    Attributes:
        radius: r ≥ 0, a scalar.
        axis: the axis or axes within a group, an int, a tuple of ints, or None for all of a leaf.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.GroupBall(radius=5.0).project(jnp.array([[6.0, 8.0], [0.3, 0.4]]))
        Array([[3., 4.],
               [0., 0.]], dtype=float32)
    """

    radius: Scalar = 1.0
    axis: Axis = dataclasses.field(default=-1, metadata={"static": True})

    def __post_init__(self) -> None:
        _validation.check_number("radius", self.radius, finite=False)
        check_axis(self.axis)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        radius = self._radius(mirror)
        anchor, slope = (_trees.as_dtype(tree, radius.dtype) for tree in (mirror, gradient))
        slopes = group_norms(slope, self.axis)
        steepest = lax.stop_gradient(_trees.largest(slopes, radius.dtype))
        size = without_overflow(step_size, steepest)
        moved = gradient_step(anchor, slope, size)
        shifted = norms_beyond(anchor, slope, size, steepest, self.axis)
        norms = group_norms(moved, self.axis)
        return _trees.cast_like(self._shrink(moved, norms, shifted), mirror)

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        wide = bring_near(wide, self._radius(wide))
        norms = group_norms(wide, self.axis)
        return _trees.cast_like(self._shrink(wide, norms, below_largest(norms)), point)

    def _shrink(self, point: Params, norms: Params, shifted: Params) -> Params:
        """Return the projection; `shifted` are the group norms up to a common shift."""
        radius = self._radius(point)
        outside = _trees.total(norms, radius.dtype) > radius
        target = jnp.where(outside, radius, 0)  # an infinite one has no derivatives
        start = _trees.largest(lax.stop_gradient(shifted), radius.dtype) - target
        shrunk = shrink_to_sum(shifted, target, start)
        return jax.tree.map(
            lambda x, to: jnp.where(outside, to * direction(x, self.axis), x), point, shrunk
        )

    def violation(self, point: Params) -> Array:
        wide = _trees.unify(point)
        radius = self._radius(wide)
        norm = _trees.total(group_norms(wide, self.axis), radius.dtype)
        return _trees.at_least(norm - radius, 0)

    def diameter(self, like: Params) -> Array:
        return euclidean_ball_diameter(self.radius, like, "GroupBall")

    def minimize_linear(self, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        radius = self._radius(wide)
        norms = group_norms(wide, self.axis)
        steepest = lax.stop_gradient(_trees.largest(norms, radius.dtype))
        ties = _trees.count(jax.tree.map(lambda norm: norm == steepest, norms), radius.dtype)
        share = radius / jnp.maximum(ties, 1)

        def vertex(g: Array, norm: Array) -> Array:
            return -along(jnp.where(norm < steepest, 0, share), direction(g, self.axis))

        return _trees.cast_like(jax.tree.map(vertex, wide, norms), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        return zeros(like, "GroupBall")

    def _radius(self, like: Params) -> Array:
        return _trees.scalar("radius", self.radius, _trees.wide_dtype(like))


def check_axis(axis: object) -> None:
    """Check that an axis is an int, a tuple of ints or None.

    Raises:
        TypeError: if it is not.
    """
    axes = axis if isinstance(axis, tuple) else (axis,)
    if axis is not None and not all(isinstance(one, int) for one in axes):
        raise TypeError(f"axis must be an int, a tuple of ints or None, not {axis!r}.")


def group_norms(tree: Params, axis: Axis) -> Params:
    """Return ‖x_g‖₂, the grouped axes kept with size 1; its derivative at 0 is 0."""

    def norm(leaf: Array) -> Array:
        unit, scale = _largest_to_one(leaf, axis)
        return scale * _unit_norm(unit, axis)

    return jax.tree.map(norm, tree)


def direction(leaf: Array, axis: Axis) -> Array:
    """Return x_g/‖x_g‖₂, 0 for x_g = 0."""
    unit, _ = _largest_to_one(leaf, axis)
    norm = _unit_norm(unit, axis)
    return unit / jnp.where(norm == 0, 1, norm)


def _largest_to_one(leaf: Array, axis: Axis) -> tuple[Array, Array]:
    """Return x_g/max|xᵢ|, 0 for x_g = 0, and what it was divided by, a constant.

    Infinite entries give the limit direction: ±1 where x is infinite, 0 elsewhere in the group.
    """
    axes = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if any(not -leaf.ndim <= one < leaf.ndim for one in axes):
        raise ValueError(
            f"axis={axis} does not exist in a leaf of shape {leaf.shape}; axis=None makes every "
            "leaf one group."
        )
    largest = jnp.max(jnp.abs(leaf), axis=axis, keepdims=True, initial=0)
    scale = lax.stop_gradient(jnp.where(largest == 0, 1, largest))
    return jnp.where(jnp.isinf(scale), limit_direction(leaf), divide(leaf, scale)), scale


def _unit_norm(unit: Array, axis: Axis) -> Array:
    return root(_sum(unit**2, axis))


def norms_beyond(
    anchor: Params, gradient: Gradient, size: Array, level: Array, axis: Axis
) -> Params:
    """Return ‖y_g − s·g_g‖ − s·G, as the difference of squares over the sum.

    So a long step in the same direction, to the level G, takes no digits from the anchor.
    """

    def beyond(y: Array, g: Array, norm: Array, slope: Array) -> Array:
        both = norm + size * level
        inverse = 1 / jnp.where(both > 0, both, 1)
        return (
            _sum(y * (y * inverse), axis)
            - 2 * _sum(y * (size * g * inverse), axis)
            + size * (slope - level) * (size * (slope + level) * inverse)
        )

    moved = jax.tree.map(lambda y, g: y - size * g, anchor, gradient)
    return jax.tree.map(
        beyond, anchor, gradient, group_norms(moved, axis), group_norms(gradient, axis)
    )


def _sum(leaf: Array, axis: Axis) -> Array:
    return jnp.sum(leaf, axis=axis, keepdims=True)
