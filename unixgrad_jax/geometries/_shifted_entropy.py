"""The simplex with an entropy of bounded range of slopes."""

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import gradient_step, squared_l1_norm
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._simplex import Simplex, SimplexSet
from unixgrad_jax.geometries._softmax import above_least, half_range


@register
class ShiftedEntropySimplex(SimplexSet):
    """The simplex x ≥ 0, Σxᵢ = s with R = 2s²·Σ(xᵢ/s + δ)·log(xᵢ/s + δ), δ = 1/n.

    Norm ‖·‖₁; dual norm on the tangent space (max g − min g)/2; D² = 2s²·log(n + 1), exactly (0
    for n = 1): the entropic geometry that the theorems of the paper cover. It also reaches zeros.

    A step is x⁺ = s·max(0, (y/s + δ)·e^{−η·g/(2s)}·z − δ), with the z that makes the sum right.
    The sum is convex and piecewise linear in z, so Newton's method from above ends after finitely
    many passes, some 3 to 8 of 4 flops an entry. The slopes of R are bounded, so nothing is lost in
    storing the point: mirror coordinates are x itself, with ∇R = 2s·(log(x/s + δ) + 1). `project`
    is the Euclidean projection.

    Attributes:
        total: s > 0, a scalar.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> simplex = ux.ShiftedEntropySimplex()
        >>> simplex.step(jnp.array([0.25, 0.25, 0.25, 0.25]), jnp.array([0.0, 1.0, 1.0, 1.0]), 9.0)
        Array([1., 0., 0., 0.], dtype=float32)
    """

    total: Scalar = 1.0

    def to_mirror(self, point: Params) -> Mirror:
        return point

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        anchor = _trees.unify(mirror)
        total = _trees.scalar("total", self.total, _trees.wide_dtype(anchor))
        size = _trees.scalar("step_size", step_size, total.dtype) / (2 * total)
        delta = jnp.asarray(1 / max(_trees.size(anchor), 1), total.dtype)
        logs = jax.tree.map(lambda y: jnp.log(y / total + delta), anchor)
        moved = gradient_step(logs, above_least(gradient), size)
        top = lax.stop_gradient(_trees.largest(moved, total.dtype))
        values = jax.tree.map(lambda v: jnp.exp(v - top), moved)
        scale = _factor(values, delta)

        def entry(value: Array) -> Array:
            share = value * scale - delta
            return total * jnp.where(share <= 0, 0, share)

        return _trees.cast_like(jax.tree.map(entry, values), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        return mirror

    def project(self, point: Params) -> Params:
        return Simplex(self.total).project(point)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return half_range(gradient) ** 2

    def squared_norm(self, difference: Params) -> Array:
        return squared_l1_norm(difference)

    def diameter(self, like: Params) -> Array:
        dtype = _trees.wide_dtype(like)
        size = _trees.size(like)
        spread = jnp.sqrt(2 * jnp.log(jnp.asarray(size + 1, dtype))) if size > 1 else 0
        return _trees.scalar("total", self.total, dtype) * spread


def _factor(values: Params, delta: Array) -> Array:
    """Return the z with Σ max(vᵢ·z − δ, 0) = 1, for 0 ≤ vᵢ ≤ 1 with a largest entry of 1.

    With the active entries known, z = (1 + kδ)/Σ_active vᵢ: that is a Newton step. With all of them
    active it lies above the root.
    """

    def newton(values: Params, scale: Array) -> Array:
        active = jax.tree.map(lambda v: v * scale > delta, values)
        count = _trees.count(active, delta.dtype)
        kept = jax.tree.map(lambda v, on: jnp.where(on, v, 0), values, active)
        return (1 + count * delta) / _trees.total(kept, delta.dtype)

    def unfinished(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def refine(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        refined = newton(fixed, carry[0])
        advances = refined < carry[0] * (1 - 2 * jnp.finfo(delta.dtype).eps)
        return jnp.where(advances, refined, carry[0]), advances

    fixed = lax.stop_gradient(values)
    all_active = 2 / _trees.total(fixed, delta.dtype)
    scale = lax.while_loop(unfinished, refine, (all_active, jnp.array(True)))[0]
    return newton(values, scale)
