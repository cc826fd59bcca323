"""Geometries made of geometries: one a subtree of the params, or one a row."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, PyTree, Scalar
from unixgrad_jax.geometries._base import Geometry, StepFunction, root
from unixgrad_jax.geometries._register import register


@register
class Product(Geometry):
    """The product of sets K = K₁ × K₂ × …, one for each subtree of the params.

    R, h, D² and ‖·‖*² are the sums of those of the parts, hence ‖x‖² = Σ‖xᵢ‖ᵢ² and the gap too;
    the violation is the largest of the parts. Everything else is done part by part.

    Attributes:
        parts: a tree of geometries, a prefix of the params: where it has a geometry, params have
            the subtree that is a point of its set.

    Raises:
        TypeError: if a leaf is not a geometry.
        ValueError: from every method, if `parts` is not a prefix of the params.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> geometry = ux.Product({"policy": ux.Simplex(), "bias": ux.Box(-1.0, 1.0)})
        >>> geometry.project({"policy": jnp.array([2.0, 1.0]), "bias": 3.0})
        {'bias': Array(1., dtype=float32), 'policy': Array([1., 0.], dtype=float32)}
    """

    parts: PyTree

    def __post_init__(self) -> None:
        for part in jax.tree.leaves(self.parts, is_leaf=_is_geometry):
            if not isinstance(part, Geometry):
                raise TypeError(f"Product takes a tree of geometries, but one leaf is {part!r}.")

    def to_mirror(self, point: Params) -> Mirror:
        return self.map(lambda part, x: part.to_mirror(x), point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return self.map(lambda part, y, g: part.step(y, g, step_size), mirror, gradient)

    def entrywise_step(
        self, mirror: Mirror, gradient: Gradient, step_size: Scalar
    ) -> StepFunction | None:
        steps = self.map(lambda part, y, g: part.entrywise_step(y, g, step_size), mirror, gradient)
        steps = jax.tree.leaves(steps, is_leaf=lambda step: step is None)
        if not steps or any(step is None for step in steps):
            return None

        def step(mirror: Mirror, gradient: Gradient) -> Mirror:
            remaining = iter(steps)
            return self.map(lambda part, y, g: next(remaining)(y, g), mirror, gradient)

        return step

    def to_point(self, mirror: Mirror) -> Params:
        return self.map(lambda part, y: part.to_point(y), mirror)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return self._sum(lambda part, g: part.squared_dual_norm(g), gradient)

    def squared_norm(self, difference: Params) -> Array:
        return self._sum(lambda part, d: part.squared_norm(d), difference)

    def diameter(self, like: Params) -> Array:
        return root(self._sum(lambda part, x: part.diameter(x) ** 2, like))

    def minimize_linear(self, gradient: Gradient) -> Params:
        return self.map(lambda part, g: part.minimize_linear(g), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        if like is None:
            return self.map(lambda part: part.interior_point())
        return self.map(lambda part, x: part.interior_point(x), like)

    def project(self, point: Params) -> Params:
        return self.map(lambda part, x: part.project(x), point)

    def violation(self, point: Params) -> Array:
        dtype = _trees.wide_dtype(point)
        parts = self.map(lambda part, x: part.violation(x), point)
        return _trees.keep_nan(jnp.maximum(_trees.largest(parts, dtype), 0), parts)

    def penalty(self, point: Params) -> Array:
        return self._sum(lambda part, x: part.penalty(x), point)

    def check(self, like: Params, *, oracle: bool = False) -> None:
        self.map(lambda part, x: part.check(x, oracle=oracle), like)

    def map(self, function: Callable[..., Any], *trees: PyTree) -> PyTree:
        """Return function(part, subtree, ...) of every part, as a tree of the params' structure."""
        parts, structure = jax.tree.flatten(self.parts, is_leaf=_is_geometry)
        if trees and not jax.tree.leaves(trees[0]):
            return trees[0]
        try:
            columns = [structure.flatten_up_to(tree) for tree in trees]
        except (ValueError, TypeError):
            raise ValueError(
                f"the parts of a Product, of structure {structure}, must be a tree prefix of the "
                f"params, whose structure is {jax.tree.structure(trees[0])}."
            ) from None
        rows = zip(parts, *columns, strict=True)
        return jax.tree.unflatten(structure, [function(*row) for row in rows])

    def _sum(self, function: Callable[..., Array], tree: PyTree) -> Array:
        return _trees.total(self.map(function, tree), _trees.wide_dtype(tree))


@register
class Batched(Geometry):
    """A stack of points, each row of the leading axis of all leaves in its own copy of a set.

    Rows of a matrix in the simplex are a Markov matrix or a policy; with `Batched(Batched(...))`
    there are two leading axes. R, h, D² and ‖·‖*² are the sums over the rows; the violation is the
    largest. Everything is done row by row, by `jax.vmap`: the iterative projections run until the
    last row is done.

    A field of the geometry that is an array gives each row its own: it carries the leading axis
    too. Scalars are shared. So `Batched(L2Ball(jnp.array([1.0, 2.0])))` are two balls, and a center
    is an array with one row a point.

    Attributes:
        geometry: the geometry of a row.

    Raises:
        TypeError: if it is not a geometry.
        ValueError: from every method, if leaves and fields do not share the size of a leading axis.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.Batched(ux.Simplex()).project(jnp.array([[2.0, 1.0], [0.5, 0.7]])).round(3)
        Array([[1. , 0. ],
               [0.4, 0.6]], dtype=float32)
    """

    geometry: Geometry

    def __post_init__(self) -> None:
        if not isinstance(self.geometry, Geometry):
            raise TypeError(f"Batched takes a geometry, not {self.geometry!r}.")

    def to_mirror(self, point: Params) -> Mirror:
        return self.map(lambda row, x: row.to_mirror(x), point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return self.map(lambda row, y, g: row.step(y, g, step_size), mirror, gradient)

    def to_point(self, mirror: Mirror) -> Params:
        return self.map(lambda row, y: row.to_point(y), mirror)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return self._sum(lambda row, g: row.squared_dual_norm(g), gradient)

    def squared_norm(self, difference: Params) -> Array:
        return self._sum(lambda row, d: row.squared_norm(d), difference)

    def diameter(self, like: Params) -> Array:
        if not jax.tree.leaves(like):
            return jnp.zeros((), _trees.wide_dtype(like))
        size, row_like = self._rows(like), jax.tree.map(_row, like)
        if self._is_shared():
            return self.geometry.diameter(row_like) * jnp.sqrt(float(size)).astype(
                _trees.wide_dtype(like)
            )
        each = jax.vmap(lambda row: row.diameter(row_like), in_axes=(self._axes(),))(self.geometry)
        _validation.check_bounded(f"Batched {type(self.geometry).__name__}", each)
        return root(jnp.sum(each**2))

    def minimize_linear(self, gradient: Gradient) -> Params:
        return self.map(lambda row, g: row.minimize_linear(g), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        axes = self._axes()
        if like is None:
            return jax.vmap(lambda row: row.interior_point(), in_axes=(axes,))(self.geometry)
        row_like = jax.tree.map(_row, like)
        return jax.vmap(
            lambda row: row.interior_point(row_like), in_axes=(axes,), axis_size=self._rows(like)
        )(self.geometry)

    def project(self, point: Params) -> Params:
        return self.map(lambda row, x: row.project(x), point)

    def violation(self, point: Params) -> Array:
        dtype = _trees.wide_dtype(point)
        rows = self.map(lambda row, x: row.violation(x), point)
        return _trees.keep_nan(jnp.maximum(_trees.largest(rows, dtype), 0), rows)

    def penalty(self, point: Params) -> Array:
        return self._sum(lambda row, x: row.penalty(x), point)

    def check(self, like: Params, *, oracle: bool = False) -> None:
        if jax.tree.leaves(like):
            self._rows(like)
            if self._is_shared():
                self.geometry.check(jax.tree.map(_row, like), oracle=oracle)

    def map(self, function: Callable[..., Any], *trees: PyTree) -> PyTree:
        """Return function(geometry of the row, row, ...) of every row, stacked."""
        if not jax.tree.leaves(trees[0]):
            return trees[0]
        size = self._rows(*trees)
        axes = (self._axes(), *(0 for _ in trees))
        arrays = [jax.tree.map(jnp.asarray, tree) for tree in trees]
        return jax.vmap(function, in_axes=axes, axis_size=size)(self.geometry, *arrays)

    def _sum(self, function: Callable[..., Array], tree: PyTree) -> Array:
        return _trees.total(self.map(function, tree), _trees.wide_dtype(tree))

    def _is_shared(self) -> bool:
        """Return whether all rows have the same set."""
        return not any(map(_trees.shape, jax.tree.leaves(self.geometry)))

    def _axes(self) -> Geometry:
        """Return the geometry with 0 for fields that are arrays, None for scalars."""
        return jax.tree.map(lambda leaf: 0 if _trees.shape(leaf) else None, self.geometry)

    def _rows(self, *trees: PyTree) -> int:
        leaves = [*jax.tree.leaves(trees), *filter(_trees.shape, jax.tree.leaves(self.geometry))]
        shapes = [_trees.shape(leaf) for leaf in leaves]
        if not all(shapes) or len({shape[0] for shape in shapes}) != 1:
            raise ValueError(
                "the leaves of the params and the array fields of a Batched geometry must all have "
                f"the same leading axis, but have shapes {shapes}."
            )
        return shapes[0][0]


def _is_geometry(node: object) -> bool:
    return isinstance(node, Geometry)


def _row(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return the shape of one row."""
    return jax.ShapeDtypeStruct(_trees.shape(leaf)[1:], _trees.float_dtype(leaf))
