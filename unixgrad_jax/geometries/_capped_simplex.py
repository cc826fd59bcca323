"""The simplex with a cap on every entry."""

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import (
    Euclidean,
    equal_shares,
    gradient_step,
    shape_from,
    tangent_square,
    without_overflow,
)
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._softmax import above_least
from unixgrad_jax.geometries._threshold import capped_threshold, clip_to_sum


@register
class CappedSimplex(Euclidean):
    """The capped simplex 0 ≤ x ≤ c, Σxᵢ = s with R = ½‖·‖₂².

    Norm ‖·‖₂; dual norm on the tangent space ‖g − mean(g)‖₂. With m = min(s, n·c − s), the part
    of the mass that two points need not share, D² = ⌊m/c⌋·c² + (m − ⌊m/c⌋·c)²: exact, but for an
    odd n with m within c/2 of n·c/2, where it is an upper bound. The projection clip(v − τ, 0, c)
    finds τ by a bracketed Newton method, without sorting, some 5 to 15 passes of 5 flops an
    entry; `step` finds it twice, the second time from values without their common part, so that
    the anchor keeps its digits however long the step. Where n·c < s is not seen until the numbers
    are known in compiled code, or a row of `Batched`, the projection is c in all entries.

    Attributes:
        total: s > 0, a scalar, at most n·c.
        cap: c > 0, a scalar.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.CappedSimplex(total=1.0, cap=0.5).project(jnp.array([9.0, 0.25, 0.0]))
        Array([0.5  , 0.375, 0.125], dtype=float32)
    """

    total: Scalar = 1.0
    cap: Scalar = 1.0

    def __post_init__(self) -> None:
        _validation.check_number("total", self.total, positive=True)
        _validation.check_number("cap", self.cap, positive=True)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        steep = above_least(gradient)
        target, cap = self._sizes(mirror)
        size = without_overflow(step_size, _trees.largest(lax.stop_gradient(steep), target.dtype))
        moved = gradient_step(mirror, steep, size)
        threshold = _coarse_threshold(moved, target, cap)
        # Entries strictly inside share the gradient −τ/s: without it, they are as small as the cap.
        long = jnp.abs(threshold) > 4 * target
        common = jnp.where(long, threshold / jnp.where(long, size, 1), 0)
        near = gradient_step(mirror, jax.tree.map(lambda g: g + common, steep), size)
        rest = _fine_threshold(near, target, cap, jnp.where(long, 0, threshold), long)
        return _trees.cast_like(clip_to_sum(near, target, cap, rest), mirror)

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        target, cap = self._sizes(wide)
        limits = _limits(wide, target, cap)
        threshold = _coarse_threshold(limits, target, cap)
        near = jax.tree.map(lambda v: v - threshold, limits)
        far = jnp.abs(threshold) > 4 * target
        rest = _fine_threshold(near, target, cap, jnp.zeros_like(target), far)
        return _trees.cast_like(clip_to_sum(near, target, cap, rest), point)

    def violation(self, point: Params) -> Array:
        wide = _trees.unify(point)
        target, cap = self._sizes(wide)
        if not _trees.size(wide):
            return jnp.zeros((), target.dtype)
        missing = jnp.abs(_trees.total(wide, target.dtype) - target)
        excess = _trees.largest(wide, target.dtype) - cap
        most = jnp.maximum(jnp.maximum(missing, excess), -_trees.least(wide, target.dtype))
        return _trees.keep_nan(most, wide)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return tangent_square(gradient)

    def diameter(self, like: Params) -> Array:
        target, cap = self._sizes(like)
        self.check(like)
        free = jnp.maximum(jnp.minimum(target, _trees.size(like) * cap - target), 0)
        full = jnp.floor(free / cap)
        return jnp.sqrt(full * cap**2 + (free - full * cap) ** 2)

    def minimize_linear(self, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        target, cap = self._sizes(wide)
        if not _trees.size(wide):
            return gradient
        ordered = jnp.sort(_trees.ravel(wide))
        full = jnp.clip(jnp.floor(target / cap), 0, ordered.size - 1).astype(jnp.int32)
        last = lax.stop_gradient(ordered[full])
        below = _trees.count(jax.tree.map(lambda g: g < last, wide), target.dtype)
        ties = _trees.count(jax.tree.map(lambda g: g == last, wide), target.dtype)
        share = jnp.clip((target - below * cap) / jnp.maximum(ties, 1), 0, cap)
        shown = jnp.where(jnp.isnan(ordered[-1]), jnp.nan, share)

        def entry(g: Array) -> Array:
            return jnp.where(g < last, cap, jnp.where(g > last, 0, shown))

        return _trees.cast_like(jax.tree.map(entry, wide), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        like = shape_from(like, 0.0, "CappedSimplex")
        self.check(like)
        return equal_shares("total", self.total, like)

    def check(self, like: Params, *, oracle: bool = False) -> None:
        del oracle
        size = _trees.size(like)
        total, cap = _validation.concrete(self.total), _validation.concrete(self.cap)
        # The slack of an ulp is for n·c that is s but for rounding.
        if size and total is not None and cap is not None and total > size * cap * (1 + 1e-6):
            raise ValueError(
                f"the capped simplex is empty: {size} entries of at most cap={self.cap} cannot sum "
                f"to total={self.total}."
            )

    def _sizes(self, like: Params) -> tuple[Array, Array]:
        dtype = _trees.wide_dtype(like)
        return _trees.scalar("total", self.total, dtype), _trees.scalar("cap", self.cap, dtype)


def _coarse_threshold(values: Params, target: Array, cap: Array) -> Array:
    """Return the threshold to its own rounding, which may be coarse beside the cap."""
    finite = jax.tree.map(lambda v: jnp.where(jnp.isfinite(v), v, 0), values)
    low = _trees.least(finite, target.dtype) - cap
    high = _trees.largest(finite, target.dtype)
    return capped_threshold(values, target, cap, (low, high), high - target)


def _fine_threshold(near: Params, target: Array, cap: Array, guess: Array, coarse: Array) -> Array:
    """Return the threshold of values from which a coarse one has been taken."""

    def refined() -> Array:
        return capped_threshold(near, target, cap, (-target - cap, target + cap), guess)

    return lax.cond(coarse, refined, lambda: guess)


def _limits(wide: Params, target: Array, cap: Array) -> Params:
    """Let infinite entries that must share what is there be 0, and all others be off or full."""

    def count(mask: Params) -> Array:
        return _trees.count(mask, target.dtype)

    crowded = count(jax.tree.map(lambda v: v == jnp.inf, wide)) * cap > target
    short = count(jax.tree.map(lambda v: v != -jnp.inf, wide)) * cap < target

    def entry(v: Array) -> Array:
        v = jnp.where(crowded & ~jnp.isnan(v), jnp.where(v == jnp.inf, 0, -jnp.inf), v)
        return jnp.where(short & ~jnp.isnan(v), jnp.where(v == -jnp.inf, 0, jnp.inf), v)

    return jax.tree.map(entry, wide)
