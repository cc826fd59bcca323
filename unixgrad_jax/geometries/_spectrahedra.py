"""The spectrahedron {X ⪰ 0, tr X = s}, with two mirror maps."""

import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import (
    ConvexSet,
    Euclidean,
    bring_near,
    gradient_step,
    shape_from,
)
from unixgrad_jax.geometries._matrix import (
    above_least_diagonal,
    check_matrix,
    like_matrix,
    map_eigenvalues,
    matrix_of,
    symmetric,
    traceless,
)
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._threshold import below_largest, shrink_to_sum


class SpectrahedronSet(ConvexSet):
    """What the spectrahedron is, whatever the mirror map."""

    trace: Scalar

    def __post_init__(self) -> None:
        _validation.check_number("trace", self.trace, positive=True)

    def minimize_linear(self, gradient: Gradient) -> Params:
        matrix = symmetric(self._matrix(gradient))
        return like_matrix(map_eigenvalues(_least_share, matrix, self._trace(gradient)), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        like = shape_from(like, 0.0, type(self).__name__)
        size = check_matrix(like, type(self).__name__, square=True)[0]
        return like_matrix(self._trace(like) / max(size, 1) * jnp.eye(size), like)

    def violation(self, point: Params) -> Array:
        matrix, trace = self._matrix(point), self._trace(point)
        if not matrix.size:
            return jnp.zeros((), matrix.dtype)
        asymmetry = jnp.max(jnp.abs(matrix - matrix.T))
        missing = jnp.abs(jnp.trace(matrix) - trace)
        least = jnp.linalg.eigvalsh(symmetric(matrix))[0]
        return _trees.keep_nan(jnp.maximum(jnp.maximum(missing, asymmetry), -least), matrix)

    def _matrix(self, tree: Params) -> Array:
        return matrix_of(tree, type(self).__name__, square=True)

    def _trace(self, like: Params) -> Array:
        return _trees.scalar("trace", self.trace, _trees.wide_dtype(like))


@register
class Spectrahedron(SpectrahedronSet, Euclidean):
    """The spectrahedron X ⪰ 0, tr X = s with R = ½‖·‖_F².

    Params have one leaf, a matrix (n, n); its antisymmetric part is dropped, that of gradients too.
    Norm ‖·‖_F; dual norm on the tangent space, that of the symmetric part without its trace; D = s,
    exactly (0 for n = 1). The projection puts the eigenvalues on the simplex, an
    eigendecomposition a step (about 9·n³ flops), whose rounding is ε·‖y − s·g‖₂; derivatives are
    finite and right at repeated eigenvalues.

    Attributes:
        trace: s > 0, a scalar.

    Example:
        >>> import numpy as np, unixgrad_jax as ux
        >>> matrix = np.diag([2.0, 1.5, 0.0])
        >>> np.asarray(ux.Spectrahedron().project(matrix)).round(3).diagonal()
        array([0.75, 0.25, 0.  ], dtype=float32)
    """

    trace: Scalar = 1.0

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        slope = like_matrix(above_least_diagonal(self._matrix(gradient)), gradient)
        return _trees.cast_like(self.project(gradient_step(mirror, slope, step_size)), mirror)

    def project(self, point: Params) -> Params:
        matrix = symmetric(bring_near(self._matrix(point), self._trace(point)))
        return like_matrix(map_eigenvalues(_to_simplex, matrix, self._trace(point)), point)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        # Twice, since the mean of a large trace is off by its own rounding.
        matrix = traceless(traceless(symmetric(self._matrix(gradient))))
        return _trees.vdot(matrix, matrix)

    def diameter(self, like: Params) -> Array:
        size = check_matrix(like, "Spectrahedron", square=True)[0]
        return self._trace(like) * (size > 1)


@register
class EntropicSpectrahedron(SpectrahedronSet):
    """The spectrahedron X ⪰ 0, tr X = s with the von Neumann entropy R = s·tr(X·log(X/s)).

    Params have one leaf, a matrix (n, n); its antisymmetric part is dropped, that of gradients too.
    Norm: nuclear; dual norm on the tangent space (λ_max(G) − λ_min(G))/2. Mirror coordinates are
    the log-matrix log(X/s), and a step is a log-softmax of the eigenvalues of log(X/s) − η·G/s: an
    eigendecomposition (about 9·n³ flops) for the step, and one for the point (matrix exponentiated
    gradient; Tsuda, Rätsch and Warmuth, 2005).

    The rounding of a log-matrix is relative to its norm. Its eigenvalues are therefore kept above
    the logarithm of the smallest normal number, below which they no longer show in the point: far
    smaller weights would cost the digits of those that count.

    D² = s²·log n is the range of R from its center, a heuristic: the supremum of the divergence is
    infinite. `project` is the Euclidean projection with eigenvalues lifted to at least ε·s/n (ε the
    spacing of the dtype at 1); an eigenvalue of 0 in a start counts as the smallest normal number.

    Attributes:
        trace: s > 0, a scalar.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> geometry = ux.EntropicSpectrahedron()
        >>> mirror = geometry.to_mirror(jnp.eye(2) / 2)
        >>> mirror = geometry.step(mirror, jnp.array([[0.0, 0.0], [0.0, 2000.0]]), 1.0)
        >>> geometry.to_point(mirror)
        Array([[1., 0.],
               [0., 0.]], dtype=float32)
    """

    trace: Scalar = 1.0

    def to_mirror(self, point: Params) -> Mirror:
        matrix = symmetric(self._matrix(point)) / self._trace(point)
        return like_matrix(map_eigenvalues(_log, matrix, self._trace(point)), point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        trace = self._trace(mirror)
        slope = symmetric(self._matrix(_trees.cast_like(gradient, _trees.widen(mirror))))
        size = _trees.scalar("step_size", step_size, trace.dtype) / trace
        moved = gradient_step(self._matrix(mirror), above_least_diagonal(slope), size)
        return like_matrix(map_eigenvalues(_log_softmax, moved, trace), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        trace = self._trace(mirror)
        return like_matrix(map_eigenvalues(_softmax, self._matrix(mirror), trace), mirror)

    def project(self, point: Params) -> Params:
        matrix = symmetric(bring_near(self._matrix(point), self._trace(point)))
        return like_matrix(map_eigenvalues(_inside_simplex, matrix, self._trace(point)), point)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        matrix = traceless(symmetric(self._matrix(gradient)))
        if not matrix.size:
            return jnp.zeros((), matrix.dtype)
        values = jnp.linalg.eigvalsh(matrix)
        return ((values[-1] - values[0]) / 2) ** 2

    def squared_norm(self, difference: Params) -> Array:
        values = jnp.linalg.eigvalsh(symmetric(self._matrix(difference)))
        return jnp.sum(jnp.abs(values)) ** 2

    def diameter(self, like: Params) -> Array:
        size = check_matrix(like, "EntropicSpectrahedron", square=True)[0]
        return self._trace(like) * jnp.sqrt(
            jnp.log(jnp.asarray(max(size, 1), self._trace(like).dtype))
        )


def _to_simplex(values: Array, total: Array) -> Array:
    return shrink_to_sum(below_largest(values), total, -total)


def _inside_simplex(values: Array, total: Array) -> Array:
    floor = jnp.finfo(values.dtype).eps * total / values.size
    lifted = jnp.maximum(_to_simplex(values, total), floor)
    return lifted * (total / jnp.sum(lifted))


def _least_share(values: Array, total: Array) -> Array:
    """Return s shared between the smallest values."""
    least = values == jnp.min(values)
    share = total / jnp.maximum(jnp.sum(least), 1)
    return jnp.where(least, share, 0 * values)  # NaN stays


def _log(values: Array, total: Array) -> Array:
    del total
    return jnp.log(jnp.maximum(values, jnp.finfo(values.dtype).tiny))


def _log_softmax(values: Array, total: Array) -> Array:
    del total
    shifted = values - jnp.max(values)
    normalized = shifted - jnp.log(jnp.sum(jnp.exp(shifted)))
    return jnp.maximum(normalized, jnp.log(jnp.finfo(values.dtype).tiny))


def _softmax(values: Array, total: Array) -> Array:
    weights = jnp.exp(values - jnp.max(values))
    return total * weights / jnp.sum(weights)
