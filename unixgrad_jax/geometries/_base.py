"""The protocol: what a method may ask of a constraint set and its mirror map."""

import abc
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar

StepFunction = Callable[[Mirror, Gradient], Mirror]
"""A prox step of given size."""


class Geometry(abc.ABC):
    """A compact convex set K with a mirror map R that is 1-strongly convex on it.

    A geometry is frozen data. Its numeric fields (radius, bounds, ...) are pytree leaves, so it is
    passed through `jax.jit`, `jax.vmap` and `jax.grad` like any array. A params pytree is one
    vector x unless the geometry says otherwise. Points and mirror coordinates that come out have
    the dtype, leaf by leaf, of those that went in; scalars have the widest dtype, at least float32.

    To write your own, subclass, implement every abstract method and decorate with
    `unixgrad_jax.geometries.register`. Most sets have R = ½‖·‖₂²: subclass
    `unixgrad_jax.geometries.Euclidean`, which leaves the mirror map done, or `FullSpace` beside it
    for a set that lies in no affine subspace. In this package add it to the table in
    tests/geometries/catalogue.py, which holds every law of the protocol against it.
    """

    @abc.abstractmethod
    def to_mirror(self, point: Params) -> Mirror:
        """Return the mirror coordinates ∇R(x) of a feasible point."""

    @abc.abstractmethod
    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        """Return the mirror coordinates of argmin_{x∈K} s·(⟨g, x⟩ + h(x)) + D_R(x, y).

        Args:
            mirror: mirror coordinates of the anchor y.
            gradient: g, with the structure of the anchor.
            step_size: s ≥ 0, a scalar.
        """

    @abc.abstractmethod
    def to_point(self, mirror: Mirror) -> Params:
        """Return the feasible point that has these mirror coordinates."""

    @abc.abstractmethod
    def squared_dual_norm(self, gradient: Gradient) -> Array:
        """Return ‖g‖*², the dual norm on the tangent space of K, a scalar."""

    @abc.abstractmethod
    def squared_norm(self, difference: Params) -> Array:
        """Return ‖x − y‖², in the norm in which R is 1-strongly convex on K, a scalar.

        Args:
            difference: x − y, of two points of K.
        """

    @abc.abstractmethod
    def diameter(self, like: Params) -> Array:
        """Return D = sqrt(sup_{x,y∈K} D_R(x, y)) for params shaped like `like`.

        Raises:
            ValueError: if the set is unbounded.
        """

    @abc.abstractmethod
    def minimize_linear(self, gradient: Gradient) -> Params:
        """Return a point of argmin_{v∈K} ⟨g, v⟩ + h(v), the linear minimization oracle."""

    @abc.abstractmethod
    def interior_point(self, like: Params | None = None) -> Params:
        """Return the prox-center argmin_K R, the default start.

        Args:
            like: arrays or `jax.ShapeDtypeStruct`s that give structure, shapes and dtypes. May be
                left out where the geometry's own arrays determine them.

        Raises:
            ValueError: if `like` is needed and missing.
        """

    @abc.abstractmethod
    def project(self, point: Params) -> Params:
        """Return a feasible point at which the mirror map is defined, for any input.

        Euclidean geometries return the nearest point of K. Integer params become floating.
        """

    @abc.abstractmethod
    def violation(self, point: Params) -> Array:
        """Return how far outside K a point is, in units of the point: 0 inside, a scalar."""

    @abc.abstractmethod
    def penalty(self, point: Params) -> Array:
        """Return h(x), a scalar: 0 for a plain set."""

    def entrywise_step(
        self, mirror: Mirror, gradient: Gradient, step_size: Scalar
    ) -> StepFunction | None:
        """Return `step` as a function of matching entries of y and g, or None, if it is not one.

        What concerns all entries, such as a norm, is worked out here. With large params it is
        sooner applied twice, to the anchor and to a copy, than its result kept.
        """
        del mirror, gradient, step_size
        return None

    def check(self, like: Params, *, oracle: bool = False) -> None:
        """Check that fields whose values are known make a set of params shaped like `like`.

        Compiled methods see no values: `register` makes them call this first.

        Args:
            like: arrays or `jax.ShapeDtypeStruct`s that give structure and shapes.
            oracle: whether linear functions need a minimum on the set, too.

        Raises:
            ValueError: if they do not.
        """
        del like, oracle


class ConvexSet(Geometry):
    """A geometry without a penalty: h = 0."""

    def penalty(self, point: Params) -> Array:
        return jnp.zeros((), _trees.wide_dtype(point))


class Euclidean(ConvexSet):
    """A set with R = ½‖·‖₂², whose mirror coordinates are the point itself."""

    def to_mirror(self, point: Params) -> Mirror:
        return point

    def to_point(self, mirror: Mirror) -> Params:
        return mirror

    def squared_norm(self, difference: Params) -> Array:
        return _trees.vdot(difference, difference)


class FullSpace(Euclidean):
    """A Euclidean set that lies in no affine subspace: the dual norm is ‖·‖₂."""

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return _trees.vdot(gradient, gradient)


def gradient_step(anchor: Params, gradient: Gradient, step_size: Scalar) -> Params:
    """Return y − s·g, all leaves in the wide dtype of the anchor."""
    dtype = _trees.wide_dtype(anchor)
    size = _trees.scalar("step_size", step_size, dtype)
    return jax.tree.map(
        lambda y, g: jnp.asarray(y, dtype) - size * jnp.asarray(g, dtype), anchor, gradient
    )


def bring_near(point: Params, size: Array) -> Params:
    """Return a point no farther than 2/ε²·max(size, 1), with the same projection onto the set.

    What is farther out is scaled down: entries that differ at all then still differ by far more
    than the set is wide. Infinite entries count as the limit: their signs, and 0 elsewhere.
    """
    dtype = size.dtype
    far = 2 / jnp.finfo(dtype).eps ** 2 * jnp.maximum(size, 1)
    top = lax.stop_gradient(_trees.largest(jax.tree.map(jnp.abs, point), dtype))
    scale = jnp.where(top > far, far / jnp.where(top > far, top, 1), 1)

    def near(x: Array) -> Array:
        return jnp.where(jnp.isinf(top), far * limit_direction(x), x * scale)

    return jax.tree.map(near, point)


def limit_direction(vector: Array) -> Array:
    """Return the direction of a vector with infinite entries: their signs, 0 elsewhere, or NaN."""
    rest = jnp.where(jnp.isnan(vector), vector, 0)
    return jnp.where(jnp.isinf(vector), jnp.sign(vector), rest)


def without_overflow(step_size: Scalar, steepest: Array) -> Array:
    """Return s, or the size at which s·g is near the end of the range: to a vertex, either way."""
    size = _trees.scalar("step_size", step_size, steepest.dtype)
    longest = float(jnp.finfo(steepest.dtype).max) / 64 / jnp.where(steepest > 0, steepest, 1)
    return jnp.where(jnp.isinf(steepest), size, jnp.minimum(size, longest))


def divide(value: Array, divisor: Array) -> Array:
    """Return v/d for d ≥ |v|, also where 1/d, which XLA multiplies by instead, would be flushed."""
    power = 2.0 ** (jnp.finfo(divisor.dtype).maxexp // 2)
    factor = jnp.where(divisor > power, 1 / power, 1).astype(divisor.dtype)
    return (value * factor) / (divisor * factor)


def root(value: Array) -> Array:
    """Return √v for v ≥ 0, with derivative 0 at 0."""
    positive = value > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, value, 1)), value)


def tangent_square(gradient: Gradient) -> Array:
    """Return ‖g − mean(g)‖₂², the square of g on vectors whose entries sum to 0."""
    wide = _trees.unify(gradient)
    dtype, size = _trees.wide_dtype(wide), max(_trees.size(wide), 1)
    mean = _trees.total(wide, dtype) / size
    centered = jax.tree.map(lambda g: g - mean, wide)
    # The mean may be off by its own rounding, which beside a large one is not small.
    rest, squares = _trees.totals([centered, jax.tree.map(jnp.square, centered)], dtype)
    return _trees.at_least(squares - rest * (rest / size), 0)


def squared_l1_norm(difference: Params) -> Array:
    """Return ‖d‖₁² of all entries."""
    sizes = jax.tree.map(jnp.abs, difference)
    return _trees.total(sizes, _trees.wide_dtype(sizes)) ** 2


def equal_shares(name: str, total: Scalar, like: Params) -> Params:
    """Return params shaped like `like` with s/n in all entries."""
    share = _trees.scalar(name, total, _trees.wide_dtype(like)) / max(_trees.size(like), 1)
    return filled(share, like)


def zeros(like: Params | None, name: str) -> Params:
    """Return the origin, shaped like `like`.

    Raises:
        ValueError: if `like` is None.
    """
    return filled(0.0, shape_from(like, 0.0, name))


def filled(value: Scalar, like: Params) -> Params:
    """Return params shaped like `like` with one value in all entries."""
    return jax.tree.map(
        lambda leaf: jnp.full(_trees.shape(leaf), value, _trees.float_dtype(leaf)), like
    )


def shape_from(like: Params | None, own: Params, name: str) -> Params:
    """Return `like`, or the geometry's own arrays where they determine the shape of a point.

    Raises:
        ValueError: if `like` is None and every field of the geometry is a scalar.
    """
    if like is not None:
        return like
    if jax.tree_util.all_leaves([own]) and not _trees.shape(own):
        raise ValueError(
            f"{name} does not know the shape of its points: give params (the start), "
            "or a pytree of jax.ShapeDtypeStruct in their place."
        )
    return own
