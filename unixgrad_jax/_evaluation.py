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
            gradient=cut.slope,
            constant=cut.constant,
            magnitude=cut.magnitude,
            rounding=jnp.asarray(ROUNDING * max(units), dtype),
            aux=aux,
        )


class Point(NamedTuple):
    """An evaluated point.

    Attributes:
        params: x, in the dtypes of the start.
        value: f(x) + h(x).
        gradient: ∇f(x), in the wide dtype like all that follows.
        constant, magnitude: the rest of the tangent of f at x, see `Cut`.
        rounding: the relative error allowed in all of these.
        aux: what else the objective returned.
    """

    params: Params
    value: Array
    gradient: Gradient
    constant: Array
    magnitude: Array
    rounding: Array
    aux: Any

    @property
    def cut(self) -> Cut:
        return Cut(self.gradient, self.constant, self.magnitude)

    @property
    def finite(self) -> Array:
        """Whether value and gradient are finite: 0·∞ is not, so the constant shows it."""
        return jnp.isfinite(self.constant) & jnp.isfinite(self.value)


class _Walk(NamedTuple):
    query: Params
    best: Point
    gap: Array
    num_gradients: Array
    suspect: Array


def evaluate_start(evaluate: Evaluate, start: Params) -> tuple[Point, Array]:
    """Return the start, or a point nearer to the center of K, and the number of gradients taken.

    Where nothing is finite, or a gap is enormous beside the value, the objective may be singular
    at the boundary, and the first gradient would set a scale that forbids all progress. The way
    to the center is then halved for as long as that makes the gap a hundred times smaller.
    """
    geometry = evaluate.geometry
    center = _trees.unify(geometry.interior_point(start))

    def advance(walk: _Walk) -> _Walk:
        point = evaluate(walk.query)
        gap = point.value - lower_bound(geometry, point.cut, 0.0)
        gap = jnp.where(point.finite & ~jnp.isnan(gap), gap, jnp.inf)
        better = (gap < walk.gap / 100) | jnp.isinf(walk.gap)
        # A set without bounds has no finite gap anywhere.
        small = point.finite & ((gap <= SUSPECT_GAP * jnp.abs(point.value)) | jnp.isinf(gap))
        return _Walk(
            query=jax.tree.map(lambda x, c: (x + c) / 2, walk.query, center),
            best=optax.tree.where(better, point, walk.best),
            gap=jnp.where(better, gap, walk.gap),
            num_gradients=walk.num_gradients + 1,
            suspect=better & ~small & (walk.num_gradients < MAX_HALVINGS),
        )

    nothing = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(lambda point: evaluate(point), start),
    )
    walk = _Walk(
        query=start,
        best=nothing,
        gap=jnp.full((), jnp.inf, _trees.wide_dtype(start)),
        num_gradients=jnp.zeros((), jnp.int32),
        suspect=jnp.ones((), jnp.bool_),
    )
    walk = lax.while_loop(lambda walk: walk.suspect, advance, walk)
    return walk.best, walk.num_gradients
