"""Evaluated points: value, gradient and tangent, and the first of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._certificates import Cut, tangent, tangent_bound
from unixgrad_jax._types import Array, Gradient, Params
from unixgrad_jax.geometries import Geometry

ROUNDING = 8
"""Units of rounding allowed in the objective, the gradient and each cut."""
SUSPECT_GAP = 100
"""The gap at the start, relative to the value there, that looks like a singularity."""
MAX_HALVINGS = 20
"""Of the way from the start to the center."""


class Evaluate(NamedTuple):
    """f, its gradient and what it returns besides, at points in the dtypes of the start.

    Attributes:
        objective: f, or with `has_aux` a pair of f and something else.
        args: its further arguments.
        has_aux: whether it returns a pair.
        geometry: K, R and h.
        like: the structure, shapes and dtypes of points.
        rounding: the relative error allowed in values, gradients and cuts.
    """

    objective: Callable[..., Any]
    args: tuple
    has_aux: bool
    geometry: Geometry
    like: Params
    rounding: float

    def __call__(self, point: Params) -> "Point":
        params = self.rounded(point)
        result, gradient = jax.value_and_grad(self.objective, has_aux=self.has_aux)(
            params, *self.args
        )
        value, aux = result if self.has_aux else (result, None)
        aux = jax.tree.map(jnp.asarray, aux)
        dtype = _trees.wide_dtype(params)
        value = jnp.asarray(value, dtype) + self.geometry.penalty(_trees.unify(params))
        return Point(params, value, _trees.as_dtype(gradient, dtype), aux)

    def rounded(self, point: Params) -> Params:
        """Return the point in the dtypes of the start, at which f is evaluated."""
        return _trees.cast_like(point, self.like)

    def tangent(self, point: "Point") -> Cut:
        """Return the tangent of f at an evaluated point."""
        wide = _trees.unify(point.params)
        return tangent(self.geometry, wide, point.value, point.gradient)

    def lower_bound(self, point: "Point") -> Array:
        """Return the least value of tangent + h on K, made smaller by what rounding may add."""
        wide = _trees.unify(point.params)
        return tangent_bound(self.geometry, wide, point.value, point.gradient, self.rounding)


class Point(NamedTuple):
    """An evaluated point.

    Attributes:
        params: x, in the dtypes of the start.
        value: f(x) + h(x), in the wide dtype.
        gradient: ∇f(x), in the wide dtype.
        aux: what else the objective returned.
    """

    params: Params
    value: Array
    gradient: Gradient
    aux: Any

    @property
    def candidate(self) -> "Candidate":
        """The point without its gradient."""
        return Candidate(self.params, self.value, self.aux)

    @property
    def finite(self) -> Array:
        """Whether value and gradient are finite: 0·∞ is not, so the inner product shows it."""
        return jnp.isfinite(self.value) & jnp.isfinite(_trees.vdot(self.gradient, self.params))


def rounding(objective: Callable[..., Any], like: Params, args: tuple, has_aux: bool) -> float:
    """Return the relative error that a value may have, in the dtypes of the value and params.

    Raises:
        TypeError: if what the objective returns is not a floating scalar, or not a pair of one
            and something else with `has_aux`.
    """
    result = jax.eval_shape(objective, like, *args)
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        raise TypeError(f"with has_aux=True the objective must return a pair, not {result}.")
    value: Any = result[0] if has_aux else result
    is_scalar = isinstance(value, jax.ShapeDtypeStruct) and value.shape == ()
    if not (is_scalar and jnp.issubdtype(value.dtype, jnp.floating)):
        hint = "" if has_aux else "; for a pair of a scalar and anything else, give has_aux=True"
        raise TypeError(f"the objective must return a floating scalar, not {value}{hint}.")
    leaves = jax.tree.leaves((value, like))
    return ROUNDING * max(float(jnp.finfo(leaf.dtype).eps) for leaf in leaves)


class Candidate(NamedTuple):
    """What is kept of the best point: as `Point`, but for the gradient."""

    params: Params
    value: Array
    aux: Any


class FirstPoint(NamedTuple):
    """Where to start from, the bound f* ≥ that its tangent proves (or −∞), and what it took."""

    point: Point
    lower_bound: Array
    num_gradients: Array


class _Walk(NamedTuple):
    query: Params
    best: FirstPoint
    suspect: Array


def evaluate_start(evaluate: Evaluate, start: Params) -> FirstPoint:
    """Evaluate the start, or a point nearer to the center of K.

    Where nothing is finite, or a gap is enormous beside the value, the objective may be singular
    at the boundary, and the first gradient would set a scale that forbids all progress. The way
    to the center is then halved for as long as that makes the gap a hundred times smaller.
    """
    geometry = evaluate.geometry
    center = _trees.unify(geometry.interior_point(start))

    def gap(at: FirstPoint) -> Array:
        return jnp.where(at.point.finite, at.point.value - at.lower_bound, jnp.inf)

    def advance(walk: _Walk) -> _Walk:
        point = evaluate(walk.query)
        bound = evaluate.lower_bound(point)
        bound = jnp.where(point.finite & ~jnp.isnan(bound), bound, -jnp.inf)
        num_gradients = walk.best.num_gradients + 1
        new = FirstPoint(point, bound, num_gradients)
        better = (gap(new) < gap(walk.best) / 100) | jnp.isinf(gap(walk.best))
        # A set without bounds has no finite gap anywhere.
        small = (gap(new) <= SUSPECT_GAP * jnp.abs(point.value)) | jnp.isinf(gap(new))
        old = walk.best._replace(num_gradients=num_gradients)
        return _Walk(
            query=jax.tree.map(lambda x, c: (x + c) / 2, walk.query, center),
            best=optax.tree.where(better, new, old),
            suspect=better & ~(point.finite & small) & (num_gradients <= MAX_HALVINGS),
        )

    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(lambda point: evaluate(point), start))
    no_bound = jnp.full((), -jnp.inf, _trees.wide_dtype(start))
    walk = _Walk(
        query=start,
        best=FirstPoint(nothing, no_bound, jnp.zeros((), jnp.int32)),
        suspect=jnp.ones((), jnp.bool_),
    )
    return lax.while_loop(lambda walk: walk.suspect, advance, walk).best
