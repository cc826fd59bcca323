"""The ℓ1 ball with an entropy: exponentiated gradient with positive and negative weights."""

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import ConvexSet, gradient_step, squared_l1_norm, zeros
from unixgrad_jax.geometries._l1_ball import L1Ball
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._softmax import above_least, log_softmax, softmax


@register
class EntropicL1Ball(ConvexSet):
    """The ball ‖x‖₁ ≤ r with the entropy of its points seen as differences of weights.

    With x = r·(p − m), weights p, m ≥ 0 and Σ(pᵢ + mᵢ) = 1,
    R(x) = r²·min_{p, m} Σ(pᵢ·log pᵢ + mᵢ·log mᵢ), where pᵢ·mᵢ is the same q² for all i.
    Norm ‖·‖₁; dual norm max|gᵢ|. A step is the algorithm EG± (Kivinen and Warmuth, "Exponentiated
    gradient versus gradient descent for linear predictors", 1997): a softmax over 2n weights, some
    20 flops an entry.

    Mirror coordinates are the pair (log p, log m), twice the leaves of a point: kept apart and
    normalized, the large weights keep their digits however long the run; their difference is
    2·∇R(x)/r. D² = r²·log 2n is the range of R from its center, a heuristic: the supremum of the
    divergence is infinite. `project` is that of `L1Ball`, and `to_mirror` leaves a slack of at
    least ε·r (ε the spacing of the dtype at 1), so that every point of the ball can be a start.

    Attributes:
        radius: r > 0, a scalar.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ball = ux.EntropicL1Ball(radius=2.0)
        >>> mirror = ball.step(ball.to_mirror(jnp.zeros(3)), jnp.array([-9.0, -1.0, 8.9]), 8.0)
        >>> ball.to_point(mirror).round(1)
        Array([ 1.2,  0. , -0.8], dtype=float32)
    """

    radius: Scalar = 1.0

    def __post_init__(self) -> None:
        _validation.check_number("radius", self.radius, positive=True)

    def to_mirror(self, point: Params) -> Mirror:
        wide = _trees.unify(point)
        radius = self._radius(wide)
        shares = jax.tree.map(lambda x: x / radius, wide)
        mean = _geometric_mean(shares)
        ratio = jax.tree.map(lambda x: jnp.arcsinh(x / (2 * mean)), shares)
        both = (ratio, jax.tree.map(jnp.negative, ratio))
        return _trees.cast_like(log_softmax(both), (point, point))

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        radius = self._radius(mirror)
        size = _trees.scalar("step_size", step_size, radius.dtype) / radius
        both = (gradient, jax.tree.map(jnp.negative, gradient))
        moved = gradient_step(mirror, above_least(both), size)
        return _trees.cast_like(log_softmax(moved), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        wide = _trees.unify(mirror)
        plus, minus = softmax(wide, self._radius(wide))
        return _trees.cast_like(jax.tree.map(jnp.subtract, plus, minus), mirror[0])

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        wide = _trees.unify(gradient)
        top = _trees.largest(jax.tree.map(jnp.abs, wide), _trees.wide_dtype(wide))
        return _trees.keep_nan(jnp.maximum(top, 0) ** 2, wide)

    def squared_norm(self, difference: Params) -> Array:
        return squared_l1_norm(difference)

    def diameter(self, like: Params) -> Array:
        radius = self._radius(like)
        return radius * jnp.sqrt(jnp.log(jnp.asarray(2 * max(_trees.size(like), 1), radius.dtype)))

    def minimize_linear(self, gradient: Gradient) -> Params:
        return L1Ball(self.radius).minimize_linear(gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        return zeros(like, "EntropicL1Ball")

    def project(self, point: Params) -> Params:
        return L1Ball(self.radius).project(point)

    def violation(self, point: Params) -> Array:
        return L1Ball(self.radius).violation(point)

    def _radius(self, like: Params) -> Array:
        return _trees.scalar("radius", self.radius, _trees.wide_dtype(like))


def _geometric_mean(shares: Params) -> Array:
    """Return the q > 0 with Σ√(xᵢ² + 4q²) = 1, at which √(pᵢ·mᵢ) = q for all i.

    Newton's method from above on Σ 4q²/(√(xᵢ² + 4q²) + |xᵢ|) − (1 − ‖x‖₁), convex and increasing.
    """
    dtype = _trees.wide_dtype(shares)

    def excess(shares: Params, mean: Array) -> tuple[Array, Array]:
        roots = jax.tree.map(lambda x: jnp.hypot(x, 2 * mean), shares)
        norm = _trees.total(jax.tree.map(jnp.abs, shares), dtype)
        slack = jnp.where(norm > 1 - jnp.finfo(dtype).eps, jnp.finfo(dtype).eps, 1 - norm)
        terms = jax.tree.map(lambda x, root: 4 * mean**2 / (root + jnp.abs(x)), shares, roots)
        slopes = jax.tree.map(lambda root: 4 * mean / root, roots)
        return _trees.total(terms, dtype) - slack, _trees.total(slopes, dtype)

    def unfinished(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def refine(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        value, slope = excess(fixed, carry[0])
        refined = carry[0] - value / slope
        advances = (refined < carry[0] * (1 - 4 * jnp.finfo(dtype).eps)) & (refined > 0)
        return jnp.where(advances, refined, carry[0]), advances

    fixed = lax.stop_gradient(shares)
    start = jnp.asarray(0.5 / max(_trees.size(shares), 1), dtype)
    mean = lax.while_loop(unfinished, refine, (start, jnp.array(True)))[0]
    value, slope = excess(shares, mean)
    return mean - value / lax.stop_gradient(slope)
