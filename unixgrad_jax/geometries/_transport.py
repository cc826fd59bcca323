"""The transport polytope and the Birkhoff polytope, with the entropy as mirror map."""

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import ConvexSet, divide, root, shape_from, squared_l1_norm
from unixgrad_jax.geometries._matrix import check_matrix
from unixgrad_jax.geometries._register import register
from unixgrad_jax.geometries._scaling import scale_to_marginals
from unixgrad_jax.geometries._shortest_paths import optimal_plan
from unixgrad_jax.geometries._softmax import log_weights


class TransportSet(ConvexSet):
    """What a set of plans P ≥ 0, P·1 = r, Pᵀ·1 = c is, whatever names its marginals.

    The params are one m×n matrix: a pytree with exactly one leaf.
    """

    @abc.abstractmethod
    def marginals(self, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[Array, Array]:
        """Return r and c, arrays of shapes (m,) and (n,) with one total, for checked m×n plans."""

    def to_mirror(self, point: Params) -> Mirror:
        wide = _trees.unify(point)
        shares = jax.tree.map(lambda x: x / self._shares(x)[0], wide)
        return _trees.cast_like(log_weights(shares), point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        wide = _trees.unify(mirror)
        size = _trees.scalar("step_size", step_size, _trees.wide_dtype(wide))

        def stepped(y: Array, g: Array) -> Array:
            total, rows, columns = self._shares(y)
            return scale_to_marginals(
                y - size / total * _lower(jnp.asarray(g, y.dtype)), rows, columns
            )

        return _trees.cast_like(jax.tree.map(stepped, wide, gradient), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        def plan(y: Array) -> Array:
            rows, columns = self.marginals(y.shape, y.dtype)
            return _round(rows[:, None] * jax.nn.softmax(y, axis=1), rows, columns)

        return _trees.cast_like(jax.tree.map(plan, _trees.unify(mirror)), mirror)

    def project(self, point: Params) -> Params:
        def scaled(x: Array, like: Array) -> Array:
            total, rows, columns = self._shares(x)
            floor = jnp.finfo(_trees.float_dtype(like)).eps * jnp.outer(rows, columns)
            top = lax.stop_gradient(jnp.max(x))
            finite = jnp.isfinite(top) | jnp.isnan(top)
            shares = jnp.where(finite, divide(x, jnp.maximum(top, total)), x == top)
            log_plan = scale_to_marginals(jnp.log(_trees.at_least(shares, floor)), rows, columns)
            plan = jnp.maximum(jnp.exp(log_plan), floor)  # exp may round to 0
            return _round(total * plan, total * rows, total * columns)

        return _trees.cast_like(jax.tree.map(scaled, _trees.unify(point), point), point)

    def violation(self, point: Params) -> Array:
        def excess(x: Array) -> Array:
            rows, columns = self.marginals(x.shape, x.dtype)
            off = jnp.concatenate([jnp.sum(x, axis=1) - rows, jnp.sum(x, axis=0) - columns])
            return _largest(jnp.concatenate([jnp.abs(off), -x.ravel()]))

        wide = _trees.unify(point)
        return _trees.total(jax.tree.map(excess, wide), _trees.wide_dtype(wide))

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        wide = _trees.unify(gradient)
        norms = jax.tree.map(lambda g: _largest(jnp.abs(_level(g))), wide)
        return _trees.total(norms, _trees.wide_dtype(wide)) ** 2

    def squared_norm(self, difference: Params) -> Array:
        return squared_l1_norm(difference)

    def diameter(self, like: Params) -> Array:
        dtype = _trees.wide_dtype(like)

        def squared(shape: tuple[int, ...]) -> Array:
            rows, columns = self.marginals(shape, dtype)
            total = jnp.sum(rows)
            return total * jnp.minimum(_entropy(rows, total), _entropy(columns, total))

        self.check(like)
        found = [squared(_trees.shape(leaf)) for leaf in jax.tree.leaves(like)]
        return root(jnp.maximum(_trees.total(found, dtype), 0))

    def minimize_linear(self, gradient: Gradient) -> Params:
        def plan(g: Array) -> Array:
            cost, (rows, columns) = lax.stop_gradient((g, self.marginals(g.shape, g.dtype)))
            return _round(optimal_plan(_lower(cost), rows, columns), rows, columns)

        return _trees.cast_like(jax.tree.map(plan, _trees.unify(gradient)), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        like = shape_from(like, self._own_shape(), type(self).__name__)
        dtype = _trees.wide_dtype(like)

        def independent(leaf: Array) -> Array:
            rows, columns = self.marginals(_trees.shape(leaf), dtype)
            return jnp.outer(rows, columns / jnp.sum(columns))

        self.check(like)
        return _trees.cast_like(jax.tree.map(independent, like), like)

    def check(self, like: Params, *, oracle: bool = False) -> None:
        del oracle
        shape = check_matrix(like, type(self).__name__)
        if jax.tree.leaves(like):
            if 0 in shape:
                raise ValueError(f"no plan of shape {shape} has positive row and column sums.")
            self._check_marginals(shape)

    @abc.abstractmethod
    def _check_marginals(self, shape: tuple[int, ...]) -> None:
        """Check that there are m×n plans, as far as values are known."""

    @abc.abstractmethod
    def _own_shape(self) -> Params:
        """Return the shape of a plan if the fields determine it, else a number."""

    def _shares(self, matrix: Array) -> tuple[Array, Array, Array]:
        """Return the total s, and the marginals r/s and c/s."""
        rows, columns = self.marginals(matrix.shape, matrix.dtype)
        total = jnp.sum(rows)
        return total, rows / total, columns / total


@register
class TransportPolytope(TransportSet):
    """The m×n plans P ≥ 0 with row sums r and column sums c, with R = s·ΣPᵢⱼ·log(Pᵢⱼ/s).

    Here s = Σr = Σc. Params are one matrix, an array or a tree with this one leaf. Norm ‖·‖₁. The
    dual norm on the tangent space, min max|gᵢⱼ − uᵢ − vⱼ|, is a linear program; in its place stands
    an upper bound from a few sweeps of leveling (Diliberto & Straus, "On the approximation of a
    function of several variables by the sum of functions of fewer variables", 1951), at most
    1.02 times the norm on random matrices. It ignores uᵢ + vⱼ as the norm does.

    D² = s·min(H(r), H(c)) with H(p) = Σpᵢ·log(s/pᵢ) bounds the range of R from its center r·cᵀ/s, a
    heuristic: the supremum of the divergence is infinite.

    Mirror coordinates are the log-plan log(P/s). A step scales exp(mirror − step_size·g/s) to the
    marginals: by Sinkhorn steps of a few flops an entry, and where these are slow by Newton's
    method on the semi-dual, some 2 to 20 iterations of 2·m·n·min(m, n) flops, and up to 70 for
    steps so long that the plan is a vertex to the eye.
    The marginals of the plan are right to 16·ε·s in l1, and then rounded (Altschuler, Weed &
    Rigollet, "Near-linear time approximation algorithms for optimal transport via Sinkhorn
    iteration", 2017). Where this accuracy is not reached, as when infinite gradients leave
    no plan, the mirror coordinates are NaN. Derivatives are those of the implicit function theorem.

    An entry of 0 in a start counts as the smallest normal number. `project` lifts each entry to at
    least ε times that of the center (ε the spacing of the dtype at 1), and scales the matrix to the
    marginals. `minimize_linear` is an optimal plan, the vertex where there is just one, found by
    successive shortest paths; its derivative is 0. A gradient of +∞ forbids an entry.

    Attributes:
        row_sums: r > 0, of shape (m,), or a scalar.
        column_sums: c > 0, of shape (n,), or a scalar, with the total of r to 1e-5; it is scaled to
            this total.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> plans = ux.TransportPolytope(jnp.array([1.0, 2.0]), jnp.array([2.0, 1.0]))
        >>> plans.minimize_linear(jnp.array([[1.0, 0.0], [0.0, 1.0]]))
        Array([[0., 1.],
               [2., 0.]], dtype=float32)
    """

    row_sums: Array | Scalar
    column_sums: Array | Scalar

    def __post_init__(self) -> None:
        if self.row_sums is None or self.column_sums is None:  # an axis specification for jax.vmap
            return
        _validation.check_number("row_sums", self.row_sums, positive=True)
        _validation.check_number("column_sums", self.column_sums, positive=True)
        if _trees.shape(self.row_sums) and _trees.shape(self.column_sums):
            _check_totals(self.row_sums, self.column_sums)

    def marginals(self, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[Array, Array]:
        rows = jnp.broadcast_to(jnp.asarray(self.row_sums, dtype), shape[:1])
        columns = jnp.broadcast_to(jnp.asarray(self.column_sums, dtype), shape[1:])
        ratio = jnp.sum(rows) / jnp.sum(columns)
        return rows, columns * jnp.where(jnp.abs(ratio - 1) <= 2e-5, ratio, jnp.nan)

    def _check_marginals(self, shape: tuple[int, ...]) -> None:
        sums = self.row_sums, self.column_sums
        for name, one, size in zip(("row_sums", "column_sums"), sums, shape, strict=True):
            _check_length(name, one, size)
        rows, columns = map(_validation.concrete, sums)
        if rows is not None and columns is not None:
            _check_totals(np.broadcast_to(rows, shape[:1]), np.broadcast_to(columns, shape[1:]))

    def _own_shape(self) -> Params:
        shape = (*_trees.shape(self.row_sums), *_trees.shape(self.column_sums))
        if len(shape) != 2:
            return 0.0
        return jax.ShapeDtypeStruct(shape, _trees.wide_dtype((self.row_sums, self.column_sums)))


@register
class Birkhoff(TransportSet):
    """The doubly stochastic n×n matrices, a `TransportPolytope` whose sums are all 1.

    Its vertices are the permutation matrices. D² = n²·log n is the range of R from its center, a
    heuristic.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.Birkhoff().minimize_linear(jnp.array([[1.0, 0.0], [0.0, 1.0]]))
        Array([[0., 1.],
               [1., 0.]], dtype=float32)
    """

    def marginals(self, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[Array, Array]:
        return jnp.ones(shape[0], dtype), jnp.ones(shape[1], dtype)

    def _check_marginals(self, shape: tuple[int, ...]) -> None:
        if shape[0] != shape[1]:
            raise ValueError(f"Birkhoff takes square matrices, but this one has shape {shape}.")

    def _own_shape(self) -> Params:
        return 0.0


def _check_length(name: str, sums: Array | Scalar, size: int) -> None:
    if _trees.shape(sums) not in ((), (size,)):
        raise ValueError(
            f"{name} must be a scalar or have shape {(size,)} for these params, but has shape "
            f"{_trees.shape(sums)}. For several problems at once, map over it with jax.vmap."
        )


def _check_totals(rows: Array | Scalar, columns: Array | Scalar) -> None:
    seen_rows, seen_columns = _validation.concrete(rows), _validation.concrete(columns)
    if seen_rows is None or seen_columns is None:
        return
    of_rows, of_columns = np.sum(seen_rows, axis=-1), np.sum(seen_columns, axis=-1)
    if np.any(np.abs(of_rows - of_columns) > 1e-5 * of_rows):
        raise ValueError(
            "row_sums and column_sums must have the same total, but their totals are "
            f"{of_rows} and {of_columns}."
        )


def _entropy(sums: Array, total: Array) -> Array:
    return jnp.sum(sums * jnp.log(total / sums))


def _largest(values: Array) -> Array:
    """Return the largest entry, NaN where one is NaN: XLA's maximum can miss it in a batch."""
    return _trees.keep_nan(jnp.max(values), values)


def _lower(cost: Array) -> Array:
    """Return gᵢⱼ − uᵢ − vⱼ ≥ 0 with a zero in each row and column: the same functional."""
    cost = cost - lax.stop_gradient(jnp.min(cost, axis=1, keepdims=True))
    return cost - lax.stop_gradient(jnp.min(cost, axis=0, keepdims=True))


def _level(matrix: Array) -> Array:
    """Return gᵢⱼ − uᵢ − vⱼ with a small largest entry: centered, then leveled by midranges."""

    def sweep(_: int, matrix: Array) -> Array:
        for axis in (0, 1):
            highest = jnp.max(matrix, axis=axis, keepdims=True)
            matrix = matrix - (highest + jnp.min(matrix, axis=axis, keepdims=True)) / 2
        return matrix

    for axis in (0, 1):
        matrix = matrix - jnp.mean(matrix, axis=axis, keepdims=True)
    return lax.fori_loop(0, 8, sweep, matrix)


def _round(plan: Array, rows: Array, columns: Array) -> Array:
    """Return a plan with these marginals near one that misses them by rounding errors or more."""
    plan = plan * (rows / jnp.maximum(jnp.sum(plan, axis=1), rows))[:, None]
    column_sums = jnp.sum(plan, axis=0)  # short ones stay as they are
    plan = plan * (columns / jnp.maximum(column_sums, columns))[None, :]
    short_rows = jnp.maximum(rows - jnp.sum(plan, axis=1), 0)
    short_columns = jnp.maximum(columns - column_sums, 0)
    missing = jnp.maximum(jnp.sum(short_rows), jnp.sum(short_columns))
    return plan + jnp.outer(short_rows, short_columns / jnp.where(missing > 0, missing, 1))
