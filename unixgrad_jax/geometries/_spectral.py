"""Balls of matrix norms that are norms of the singular values."""

import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._balls import euclidean_ball_diameter
from unixgrad_jax.geometries._base import FullSpace, bring_near, gradient_step, zeros
from unixgrad_jax.geometries._matrix import (
    check_matrix,
    like_matrix,
    map_singular_values,
    matrix_of,
    singular_values,
)
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._threshold import below_largest, shrink_to_sum


class SingularValueBall(FullSpace):
    """What a ball of matrices in a norm of the singular values is, whatever the norm."""

    radius: Scalar

    def __post_init__(self) -> None:
        _validation.check_number("radius", self.radius, finite=False)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return _trees.cast_like(self.project(gradient_step(mirror, gradient, step_size)), mirror)

    def interior_point(self, like: Params | None = None) -> Params:
        return zeros(like, type(self).__name__)

    def _radius(self, like: Params) -> Array:
        return _trees.scalar("radius", self.radius, _trees.wide_dtype(like))

    def _matrix(self, tree: Params) -> Array:
        return matrix_of(tree, type(self).__name__)


@register
class NuclearBall(SingularValueBall):
    """The ball Σσᵢ(X) ≤ r of matrices of small nuclear norm with R = ½‖·‖_F².

    Params have one leaf, a matrix (m, n). Norm and dual norm ‖·‖_F; D = √2·r, exactly. The
    projection thresholds the singular values, an SVD a step (about 20·m·n·min(m, n) flops), whose
    rounding is ε·‖y − s·g‖₂; derivatives are finite and right at repeated and zero singular values.

    Attributes:
        radius: r ≥ 0, a scalar.

    Example:
        >>> import numpy as np, unixgrad_jax as ux
        >>> matrix = np.diag([3.0, 2.0, 0.5])
        >>> np.asarray(ux.NuclearBall(radius=2.0).project(matrix)).round(3).diagonal()
        array([1.5, 0.5, 0. ], dtype=float32)
    """

    radius: Scalar = 1.0

    def project(self, point: Params) -> Params:
        radius = self._radius(point)
        matrix = bring_near(self._matrix(point), radius)
        return like_matrix(map_singular_values(_to_l1_ball, matrix, radius), point)

    def violation(self, point: Params) -> Array:
        values = singular_values(self._matrix(point))
        return _trees.at_least(jnp.sum(values) - self._radius(point), 0)

    def diameter(self, like: Params) -> Array:
        check_matrix(like, "NuclearBall")
        return euclidean_ball_diameter(self.radius, like, "NuclearBall")

    def minimize_linear(self, gradient: Gradient) -> Params:
        matrix = self._matrix(gradient)
        vertex = map_singular_values(_top_share, matrix, self._radius(gradient))
        return like_matrix(-vertex, gradient)


@register
class SpectralBall(SingularValueBall):
    """The ball σ_max(X) ≤ r of matrices of bounded spectral norm with R = ½‖·‖_F².

    Params have one leaf, a matrix (m, n). Norm and dual norm ‖·‖_F; D² = 2r²·min(m, n), exactly.
    The projection clips the singular values, an SVD a step (about 20·m·n·min(m, n) flops);
    derivatives are finite and right at repeated and zero singular values. An infinite entry makes
    the point NaN.

    Attributes:
        radius: r ≥ 0, a scalar.

    Example:
        >>> import numpy as np, unixgrad_jax as ux
        >>> matrix = np.diag([3.0, 1.0])
        >>> np.asarray(ux.SpectralBall(radius=2.0).project(matrix)).round(3).diagonal()
        array([2., 1.], dtype=float32)
    """

    radius: Scalar = 1.0

    def project(self, point: Params) -> Params:
        matrix = self._matrix(point)
        clipped = map_singular_values(jnp.minimum, matrix, self._radius(point))
        return like_matrix(clipped, point)

    def violation(self, point: Params) -> Array:
        values = singular_values(self._matrix(point))
        largest = values[0] if values.size else jnp.zeros((), values.dtype)
        return _trees.at_least(largest - self._radius(point), 0)

    def diameter(self, like: Params) -> Array:
        _validation.check_bounded("SpectralBall", self.radius)
        rank = min(check_matrix(like, "SpectralBall"))
        return jnp.sqrt(2.0 * rank).astype(_trees.wide_dtype(like)) * self._radius(like)

    def minimize_linear(self, gradient: Gradient) -> Params:
        matrix = self._matrix(gradient)
        vertex = map_singular_values(_all_full, matrix, self._radius(gradient))
        return like_matrix(-vertex, gradient)


def _to_l1_ball(values: Array, radius: Array) -> Array:
    # A NaN sum counts as inside: the NaN stays.
    shrunk = shrink_to_sum(below_largest(values), radius, -radius)
    return jnp.where(jnp.sum(values) > radius, shrunk, values)


def _top_share(values: Array, radius: Array) -> Array:
    """Return r shared between the largest values, 0 for all of them 0."""
    top = jnp.max(values)
    largest = values == top
    share = radius / jnp.maximum(jnp.sum(largest), 1)
    return jnp.where(largest & (top != 0), share, 0 * values)  # NaN stays


def _all_full(values: Array, radius: Array) -> Array:
    return jnp.where(values > 0, radius, values)
