"""The scaled simplex {x ≥ 0, Σxᵢ = s}, with two mirror maps."""

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import (
    ConvexSet,
    Euclidean,
    divide,
    equal_shares,
    gradient_step,
    shape_from,
    squared_l1_norm,
    tangent_square,
)
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._softmax import (
    above_least,
    half_range,
    log_softmax,
    log_weights,
    softmax,
)
from unixgrad_jax.geometries._threshold import (
    below_largest,
    shrink_to_sum,
    threshold_if_active,
)


class SimplexSet(ConvexSet):
    """What the simplex is, whatever the mirror map."""

    total: Scalar

    def __post_init__(self) -> None:
        _validation.check_number("total", self.total, positive=True)

    def minimize_linear(self, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        dtype = _trees.wide_dtype(wide)
        least = _trees.least(wide, dtype)
        ties = _trees.count(jax.tree.map(lambda g: g == least, wide), dtype)
        share = _trees.scalar("total", self.total, dtype) / jnp.maximum(ties, 1)
        vertex = jax.tree.map(
            lambda g: jnp.where(g > least, 0, jnp.where(g == least, share, jnp.nan)), wide
        )
        return _trees.cast_like(vertex, gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        like = shape_from(like, 0.0, type(self).__name__)
        return equal_shares("total", self.total, like)

    def violation(self, point: Params) -> Array:
        wide = _trees.unify(point)
        dtype = _trees.wide_dtype(wide)
        if not _trees.size(wide):
            return jnp.zeros((), dtype)
        missing = jnp.abs(_trees.total(wide, dtype) - _trees.scalar("total", self.total, dtype))
        return _trees.keep_nan(jnp.maximum(missing, -_trees.least(wide, dtype)), wide)


@register
class Simplex(SimplexSet, Euclidean):
    """The simplex x ≥ 0, Σxᵢ = s with R = ½‖·‖₂².

    Norm ‖·‖₂; dual norm on the tangent space ‖g − mean(g)‖₂; D = s, exactly. The projection
    max(v − τ, 0) finds τ by Newton's method, without sorting: some 4 to 12 passes of 4 flops an
    entry. What all entries have in common is subtracted before anything is rounded.

    Attributes:
        total: s > 0, a scalar.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.Simplex().project(jnp.array([-1e8, -1e8 + 8, -1e8]))
        Array([0., 1., 0.], dtype=float32)
    """

    total: Scalar = 1.0

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        moved = gradient_step(mirror, above_least(gradient), step_size)
        target = _trees.scalar("total", self.total, _trees.wide_dtype(moved))
        start = jnp.maximum(threshold_if_active(moved, mirror, target), -target)
        return _trees.cast_like(shrink_to_sum(moved, target, start), mirror)

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        target = _trees.scalar("total", self.total, _trees.wide_dtype(wide))
        return _trees.cast_like(shrink_to_sum(below_largest(wide), target, -target), point)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return tangent_square(gradient)

    def diameter(self, like: Params) -> Array:
        return _trees.scalar("total", self.total, _trees.wide_dtype(like))


@register
class EntropicSimplex(SimplexSet):
    """The simplex x ≥ 0, Σxᵢ = s with the entropy R = s·Σxᵢ·log(xᵢ/s).

    Norm ‖·‖₁; dual norm on the tangent space (max g − min g)/2. Mirror coordinates are the
    log-weights log(x/s), and a step is log-softmax(mirror − step_size·g/s), some 10 flops an
    entry: weights far below the smallest float stay exact in the mirror, and a weight that is 0 to
    the eye comes back when its gradient asks for it.

    D² = s²·log n is the range of R from its center, a heuristic: the supremum of the divergence is
    infinite, so the theorems of the paper do not cover this choice. It is the usual one.

    A weight of 0 in a start counts as the smallest normal number, from which it takes long steps to
    come back. `project` lifts each entry to at least ε·s/n (ε the spacing of the dtype at 1, n the
    number of entries), below the rounding error of the point.

    Attributes:
        total: s > 0, a scalar.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> geometry = ux.EntropicSimplex()
        >>> mirror = geometry.to_mirror(jnp.array([0.5, 0.5]))
        >>> mirror = geometry.step(mirror, jnp.array([0.0, 2000.0]), 1.0)
        >>> geometry.to_point(mirror), mirror
        (Array([1., 0.], dtype=float32), Array([    0., -2000.], dtype=float32))
    """

    total: Scalar = 1.0

    def to_mirror(self, point: Params) -> Mirror:
        wide = _trees.unify(point)
        scale = _trees.scalar("total", self.total, _trees.wide_dtype(wide))
        return _trees.cast_like(log_weights(jax.tree.map(lambda x: x / scale, wide)), point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        dtype = _trees.wide_dtype(mirror)
        size = _trees.scalar("step_size", step_size, dtype) / _trees.scalar(
            "total", self.total, dtype
        )
        moved = gradient_step(mirror, above_least(gradient), size)
        return _trees.cast_like(log_softmax(moved), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        wide = _trees.unify(mirror)
        target = _trees.scalar("total", self.total, _trees.wide_dtype(wide))
        return _trees.cast_like(softmax(wide, target), mirror)

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        dtype = _trees.wide_dtype(wide)
        target = _trees.scalar("total", self.total, dtype)
        top = lax.stop_gradient(_trees.largest(wide, dtype))
        floor = jnp.finfo(dtype).eps * target / max(_trees.size(wide), 1)
        finite = jnp.isfinite(top) | jnp.isnan(top)

        def scaled(x: Array) -> Array:
            """Return a feasible x as it is, others so that no sum overflows."""
            return jnp.where(top > target, target * divide(x, jnp.maximum(top, target)), x)

        lifted = jax.tree.map(
            lambda x: _trees.at_least(
                jnp.where(finite | jnp.isnan(x), scaled(x), target * (x == top)), floor
            ),
            wide,
        )
        shrink = target / _trees.total(lifted, dtype)
        return _trees.cast_like(jax.tree.map(lambda x: shrink * x, lifted), point)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return half_range(gradient) ** 2

    def squared_norm(self, difference: Params) -> Array:
        return squared_l1_norm(difference)

    def diameter(self, like: Params) -> Array:
        dtype = _trees.wide_dtype(like)
        entries = jnp.asarray(max(_trees.size(like), 1), dtype)
        return _trees.scalar("total", self.total, dtype) * jnp.sqrt(jnp.log(entries))
