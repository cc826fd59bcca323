"""Evaluated points: value, gradient and tangent, and the first of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._certificates import Cut, lower_bound, tangent
from unixgrad_jax._types import Array, Gradient, Params
from unixgrad_jax.geometries import Geometry

ROUNDING = 8
"""Units of rounding allowed in the objective, the gradient and each cut."""
SUSPECT_GAP = 100
"""The gap at the start, relative to the value there, that looks like a singularity."""
MAX_HALVINGS = 20
"""Of the way from the start to the center."""


class Evaluate(NamedTuple):
    """f, its gradient and what it returns besides, at points in the dtypes of the start."""

    objective: Callable[..., Any]
    args: tuple
    has_aux: bool
    geometry: Geometry
    like: Params

    def __call__(self, point: Params) -> "Point":
        params = _trees.cast_like(point, self.like)
        result, gradient = jax.value_and_grad(self.objective, has_aux=self.has_aux)(
            params, *self.args
        )
        value, aux = result if self.has_aux else (result, None)
        dtype = _trees.wide_dtype(params)
        units = [jnp.finfo(leaf.dtype).eps for leaf in jax.tree.leaves((value, params))]
        wide = _trees.unify(params)
        cut = tangent(jnp.asarray(value, dtype), _trees.as_dtype(gradient, dtype), wide)
        return Point(
            params=params,
            value=jnp.asarray(value, dtype) + self.geometry.penalty(wide),
            cut=cut,
            rounding=jnp.asarray(ROUNDING * max(units), dtype),
            aux=aux,
        )


class Point(NamedTuple):
    """An evaluated point.

    Attributes:
        params: x, in the dtypes of the start.
        value: f(x) + h(x).
        cut: the tangent of f at x, in the wide dtype like all that follows.
        rounding: the relative error allowed in these.
        aux: what else the objective returned.
    """

    params: Params
    value: Array
    cut: Cut
    rounding: Array
    aux: Any

    @property
    def gradient(self) -> Gradient:
        """Return ∇f(x)."""
        return self.cut.slope

    @property
    def finite(self) -> Array:
        """Whether value and gradient are finite: 0·∞ is not, so the constant shows it."""
        return jnp.isfinite(self.cut.constant) & jnp.isfinite(self.value)


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
        bound = lower_bound(geometry, point.cut, point.rounding)
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

    nothing = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(lambda point: evaluate(point), start),
    )
    no_bound = jnp.full((), -jnp.inf, _trees.wide_dtype(start))
    walk = _Walk(
        query=start,
        best=FirstPoint(nothing, no_bound, jnp.zeros((), jnp.int32)),
        suspect=jnp.ones((), jnp.bool_),
    )
    return lax.while_loop(lambda walk: walk.suspect, advance, walk).best
