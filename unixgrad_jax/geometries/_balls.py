"""The ℓ2 ball, and what other balls share with it."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from unixgrad_jax import _sums, _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import (
    FullSpace,
    StepFunction,
    divide,
    gradient_step,
    limit_direction,
    root,
    shape_from,
    zeros,
)
from unixgrad_jax.geometries._register import register

LARGE = 2**18
"""From this many entries on, a CPU computes an array twice sooner than it keeps it in memory."""


@register
class L2Ball(FullSpace):
    """The ball ‖x − c‖₂ ≤ r with R = ½‖·‖₂².

    Norm and dual norm ‖·‖₂; D = √2·r, exactly. The projection is a radial scaling, about 6 flops
    an entry, right for entries of 1e38 or 1e-36 in float32, or of 300 in float16, with derivatives
    that are finite at c. `step` measures in radii, and is right up to a distance of 10²⁴ of them.

    Attributes:
        radius: r ≥ 0, a scalar.
        center: c, a scalar or a tree prefix of the params; each leaf broadcasts to its params.
            None, the default, is 0 and saves the additions.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.L2Ball(radius=1.0).project(jnp.array([3.0, 4.0]))
        Array([0.6, 0.8], dtype=float32)
    """

    radius: Scalar = 1.0
    center: Params | None = None

    def __post_init__(self) -> None:
        _validation.check_number("radius", self.radius, finite=False)
        for center in jax.tree.leaves(self.center):
            _validation.check_real("center", center)
            values = _validation.concrete(center)
            if values is not None and not np.all(np.isfinite(values)):
                raise ValueError(f"center must be finite, not {center}.")

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return self.entrywise_step(mirror, gradient, step_size)(mirror, gradient)

    def entrywise_step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> StepFunction:
        dtype = _trees.wide_dtype(mirror)
        size = _trees.scalar("step_size", step_size, dtype)
        radius = self._radius(mirror)
        unit = _unit_of_length(radius)

        # With the radius as the unit of length, v² loses nothing that matters below 1e-13·r, and
        # overflows beyond 1e25·r: the loop of a method is saved a branch. A power of two costs no
        # digits. Multiplied in after the step instead, XLA does it a second time for the norm.
        in_units = jax.tree.map(lambda c: jnp.asarray(c, dtype) * (1 / unit), self.center)
        ball = L2Ball(radius / unit, in_units)

        def move(mirror: Mirror, gradient: Gradient) -> tuple[Params, Params]:
            """Return y − s·g and that less the center."""
            scaled = jax.tree.map(lambda y: jnp.asarray(y, dtype) * (1 / unit), mirror)
            moved = gradient_step(scaled, gradient, size / unit)
            return moved, ball._from_center(moved)

        def squared() -> Array:
            _, vector = move(mirror, gradient)
            return _trees.vdot(vector, vector)

        def squared_without_unit() -> Array:
            vector = self._from_center(gradient_step(mirror, gradient, size))
            return _trees.vdot(vector, vector)

        def squared_in_one_pass() -> Array:
            """Return `squared()`, without multiplying by the unit unless squares leave the range.

            A branch keeps the sum apart: XLA would store what it has in common with other sums.
            """
            square = lax.cond(size > 0, squared_without_unit, lambda: jnp.zeros_like(size))
            least, shortest = _limits_of_range(dtype)
            in_range = (square > least) & (square < jnp.inf) & (radius > shortest)
            return lax.cond(in_range, lambda: square / unit / unit, squared)

        if _trees.size(mirror) < LARGE:
            square = squared()
        else:
            square = lax.platform_dependent(cpu=squared_in_one_pass, default=squared)
        outside, inverse_norm = _compare(square, radius / unit)

        def step(mirror: Mirror, gradient: Gradient) -> Mirror:
            moved, vector = move(mirror, gradient)
            projected = ball._pull_in(moved, vector, outside, radius / unit * inverse_norm, unit)
            return _trees.cast_like(projected, mirror)

        return step

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        vector = self._from_center(wide)
        radius = self._radius(wide)
        scale, squared = _squared_in_range(vector, radius)
        outside = squared > (scale * radius) ** 2
        reach = radius / jnp.sqrt(jnp.where(outside, squared, 1))
        scaled = jax.tree.map(lambda v: scale * _finite(v), vector)
        return _trees.cast_like(self._pull_in(wide, scaled, outside, reach), point)

    def _pull_in(
        self, point: Params, direction: Params, outside: Array, reach: Array, unit: Scalar = 1
    ) -> Params:
        """Return c + reach·direction where the point is outside, else the point; times the unit."""
        reach = jnp.where(outside, reach, 0)  # infinite where the radius is

        def pulled(x: Array, d: Array, *center: Array) -> Array:
            return jnp.where(outside, unit * (reach * d + sum(center)), unit * x)

        return jax.tree.map(pulled, point, direction, *self._centers(point))

    def _from_center(self, wide: Params) -> Params:
        return jax.tree.map(lambda x, *center: x - sum(center), wide, *self._centers(wide))

    def _centers(self, like: Params) -> tuple[Params, ...]:
        """Return the center as params, or nothing to add where it is 0."""
        if self.center is None:
            return ()
        return (_trees.broadcast("center", self.center, like),)

    def _radius(self, like: Params) -> Array:
        return _trees.scalar("radius", self.radius, _trees.wide_dtype(like))

    def violation(self, point: Params) -> Array:
        norm = _l2_norm(self._from_center(_trees.unify(point)))
        return _trees.at_least(norm - _trees.scalar("radius", self.radius, norm.dtype), 0)

    def diameter(self, like: Params) -> Array:
        return euclidean_ball_diameter(self.radius, like, "L2Ball")

    def minimize_linear(self, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        unit, _ = largest_to_one(wide)
        squared = _trees.vdot(unit, unit)
        _, inverse_norm = _compare(squared, jnp.zeros_like(squared))
        reach = _trees.scalar("radius", self.radius, inverse_norm.dtype) * inverse_norm
        vertex = jax.tree.map(
            lambda u, *center: sum(center) - along(reach, u), unit, *self._centers(unit)
        )
        return _trees.cast_like(vertex, gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        if self.center is None:
            return zeros(like, "L2Ball")
        like = shape_from(like, self.center, "L2Ball")
        return _trees.cast_like(_trees.broadcast("center", self.center, like), like)


def _squared_in_range(vector: Params, radius: Array) -> tuple[Array, Array]:
    """Return c and ‖c·v‖₂²: c is 1, or a power of two where ‖v‖₂² itself would be out of range.

    It is where it overflows, or has lost digits that the radius needs.
    """
    dtype, exponent = radius.dtype, jnp.finfo(radius.dtype).maxexp
    down, up = 2.0 ** (-5 * exponent / 8), 2.0 ** (15 * exponent / 32)
    least, shortest = _limits_of_range(dtype)
    plain = jax.tree.map(jnp.square, vector)

    def squares(scale: Scalar) -> Params:
        return jax.tree.map(lambda v: (scale * _finite(v)) ** 2, vector)

    def choose(squared: Array, if_large: Scalar, if_small: Scalar, otherwise: Scalar) -> Array:
        small = (squared < least) & (radius < shortest)
        return jnp.where(squared == jnp.inf, if_large, jnp.where(small, if_small, otherwise))

    if _trees.size(vector) <= _sums.MOST:  # one pass for all three is as fast as a single one
        squared, of_large, of_small = _trees.totals([plain, squares(down), squares(up)], dtype)
        return choose(squared, down, up, 1), choose(squared, of_large, of_small, squared)
    squared = _trees.total(plain, dtype)
    scale = choose(squared, down, up, 1)
    return scale, lax.cond(scale == 1, lambda: squared, lambda: _trees.total(squares(scale), dtype))


def _limits_of_range(dtype: np.dtype) -> tuple[float, float]:
    """Return the least ‖v‖₂² with all its digits, and the least radius that needs no smaller."""
    exponent = jnp.finfo(dtype).maxexp
    return 2.0 ** (-5 * exponent / 8), 2.0 ** (-9 * exponent / 32)


def _finite(value: Array) -> Array:
    """Return the value, or the largest number of its sign where it is infinite.

    A NaN may be lost: it must have been seen before.
    """
    most = jnp.finfo(value.dtype).max
    return lax.clamp(-most, value, most)


def _unit_of_length(radius: Array) -> Array:
    """Return about 2²⁰·r, a constant power of two far from the ends of the range; 1 for r = 0."""
    limits = jnp.finfo(radius.dtype)
    power = lax.reduce_precision(lax.stop_gradient(radius), limits.nexp, mantissa_bits=0)
    farthest = 2.0 ** (limits.maxexp * 5 // 8)
    return jnp.where(power > 0, jnp.clip(2.0**20 * power, 1 / farthest, farthest), 1)


def _compare(squared: Array, limit: Array) -> tuple[Array, Array]:
    """Return whether ‖v‖₂ exceeds the limit, and 1/‖v‖₂ if so, else 1, from ‖v‖₂².

    Both are free of NaN and of infinite derivatives for an infinite limit, and for v = 0.
    """
    outside = squared > limit**2
    return outside, 1 / jnp.sqrt(jnp.where(outside, squared, 1))


def largest_to_one(vector: Params) -> tuple[Params, Array]:
    """Return v/max|vᵢ|, 0 for v = 0, and the constant that v was divided by.

    Infinite entries give the limit direction: ±1 where v is infinite, 0 elsewhere.
    """
    dtype = _trees.wide_dtype(vector)
    scale = lax.stop_gradient(_trees.largest(jax.tree.map(jnp.abs, vector), dtype))
    divisor = jnp.maximum(scale, jnp.finfo(dtype).tiny)

    def to_unit(v: Array) -> Array:
        return jnp.where(jnp.isinf(scale), limit_direction(v), divide(v, divisor))

    return jax.tree.map(to_unit, vector), divisor


def along(reach: Array, direction: Array) -> Array:
    """Return reach·d, 0 where d is: also for an infinite reach."""
    return jnp.where(direction == 0, direction, reach * direction)


def _l2_norm(vector: Params) -> Array:
    unit, scale = largest_to_one(vector)
    return scale * root(_trees.vdot(unit, unit))


def euclidean_ball_diameter(radius: Scalar, like: Params, name: str) -> Array:
    """Return √2·r: opposite points are 2r apart."""
    _validation.check_bounded(name, radius)
    dtype = _trees.wide_dtype(like)
    return jnp.sqrt(jnp.asarray(2, dtype)) * _trees.scalar("radius", radius, dtype)
