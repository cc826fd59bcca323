"""The ℓp ball with the mirror map of its own norm."""

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._balls import along, largest_to_one
from unixgrad_jax.geometries._base import ConvexSet, gradient_step, zeros
from unixgrad_jax.geometries._register import register


@register
class PNormBall(ConvexSet):
    """The ball ‖x‖_p ≤ r, 1 < p ≤ 2, with R = ‖x‖_p²/(2(p − 1)).

    Norm ‖·‖_p, dual norm ‖·‖_q with 1/p + 1/q = 1; D² = 2r²/(p − 1), exactly. With p = 1 + 1/ln n
    this is the geometry of ℓ1 (‖x‖_p ≤ ‖x‖₁ ≤ e·‖x‖_p), covered by the theorems of the paper.

    Mirror coordinates are ∇R(x), which fill the ball ‖θ‖_q ≤ r/(p − 1); a step moves by −s·g there
    and scales back, some 10 flops and two powers an entry. Entries that underflow in x stay exact
    in θ. `project` scales radially. Derivatives in a start with entries 0 are taken to be 0 there
    (∇R has a vertical tangent).

    Attributes:
        radius: r ≥ 0, a scalar.
        p: the exponent, in (1, 2], a scalar.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.PNormBall(radius=1.0, p=1.5).diameter(jnp.zeros(3))
        Array(2., dtype=float32)
    """

    radius: Scalar = 1.0
    p: Scalar = 1.5

    def __post_init__(self) -> None:
        _validation.check_number("radius", self.radius, finite=False)
        _validation.check_real("p", self.p)
        exponents = _validation.concrete(self.p)
        if exponents is not None and not ((exponents > 1) & (exponents <= 2)).all():
            raise ValueError(f"p must be in (1, 2], not {self.p}.")

    def to_mirror(self, point: Params) -> Mirror:
        wide = _trees.unify(point)
        p = self._exponent(wide)
        return _trees.cast_like(_scaled(1 / (p - 1), _link(wide, p)), point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        moved = gradient_step(mirror, gradient, step_size)
        p = self._exponent(moved)
        limit = self._radius(moved) / (p - 1)
        return _trees.cast_like(_scale_into(moved, limit, p / (p - 1)), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        wide = _trees.unify(mirror)
        p = self._exponent(wide)
        point = _scaled(p - 1, _link(wide, p / (p - 1)))
        return _trees.cast_like(_scale_into(point, self._radius(wide), p), mirror)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        wide = _trees.unify(gradient)
        p = self._exponent(wide)
        return _norm(wide, p / (p - 1)) ** 2

    def squared_norm(self, difference: Params) -> Array:
        wide = _trees.unify(difference)
        return _norm(wide, self._exponent(wide)) ** 2

    def diameter(self, like: Params) -> Array:
        _validation.check_bounded("PNormBall", self.radius)
        return self._radius(like) * jnp.sqrt(2 / (self._exponent(like) - 1))

    def minimize_linear(self, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        p = self._exponent(wide)
        q = p / (p - 1)
        unit = largest_to_one(wide)[0]
        ray = _powers(unit, q - 1)
        reach = self._radius(wide) / _power_sum(unit, q) ** (1 / p)
        return _trees.cast_like(jax.tree.map(lambda d: along(-reach, d), ray), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        return zeros(like, "PNormBall")

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        inside = _scale_into(wide, self._radius(wide), self._exponent(wide))
        return _trees.cast_like(inside, point)

    def violation(self, point: Params) -> Array:
        wide = _trees.unify(point)
        return _trees.at_least(_norm(wide, self._exponent(wide)) - self._radius(wide), 0)

    def _exponent(self, like: Params) -> Array:
        return _trees.scalar("p", self.p, _trees.wide_dtype(like))

    def _radius(self, like: Params) -> Array:
        return _trees.scalar("radius", self.radius, _trees.wide_dtype(like))


def _link(vector: Params, p: Array) -> Params:
    """Return ∇(½‖v‖_p²) = sign(v)·|v|^(p−1)·‖v‖_p^(2−p)."""
    unit, scale = largest_to_one(vector)
    norm = _power_sum(unit, p) ** (1 / p)
    return _scaled(scale * norm ** (2 - p), _powers(unit, p - 1))


def _scale_into(vector: Params, limit: Array, p: Array) -> Params:
    """Return v, scaled down to ‖v‖_p = limit where its norm is larger."""
    unit, scale = largest_to_one(vector)
    norm = _power_sum(unit, p) ** (1 / p)
    outside = norm > limit / scale
    reach = jnp.where(outside, limit, 0) / jnp.where(outside, norm, 1)
    return jax.tree.map(lambda v, u: jnp.where(outside, reach * u, v), vector, unit)


def _norm(vector: Params, p: Array) -> Array:
    unit, scale = largest_to_one(vector)
    top = _trees.largest(jax.tree.map(jnp.abs, unit), p.dtype)
    return jnp.where(top > 0, scale * _power_sum(unit, p) ** (1 / p), _trees.at_least(top, 0))


def _power_sum(unit: Params, p: Array) -> Array:
    """Return Σ|vᵢ|^p for entries of at most 1; 1 for v = 0, to divide by."""
    summed = _trees.total(jax.tree.map(jnp.abs, _powers(unit, p)), p.dtype)
    return jnp.where(summed == 0, 1, summed)


def _powers(vector: Params, exponent: Array) -> Params:
    """Return sign(v)·|v|^a, with derivative 0 at v = 0."""

    def power(value: Array) -> Array:
        zero = value == 0
        size = jnp.where(zero, 1, jnp.abs(value))
        return jnp.where(zero, 0, jnp.sign(value) * size**exponent)

    return jax.tree.map(power, vector)


def _scaled(factor: Array, tree: Params) -> Params:
    return jax.tree.map(lambda leaf: factor * leaf, tree)
