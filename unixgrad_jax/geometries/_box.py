"""Boxes, with two mirror maps."""

import contextlib
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import (
    ConvexSet,
    Euclidean,
    StepFunction,
    gradient_step,
    root,
    shape_from,
)
from unixgrad_jax.geometries._register import register


class BoxSet(ConvexSet):
    """What the box is, whatever the mirror map."""

    lower: Params
    upper: Params

    def violation(self, point: Params) -> Array:
        wide = _trees.unify(point)
        excess = jax.tree.map(
            lambda x, low, high: jnp.maximum(low - x, x - high), wide, *self._bounds(wide)
        )
        most = jnp.maximum(_trees.largest(excess, _trees.wide_dtype(wide)), 0)
        return _trees.keep_nan(most, wide)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return _trees.vdot(gradient, gradient)

    def minimize_linear(self, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        vertex = jax.tree.map(
            lambda g, low, high: jnp.where(
                g == 0, jnp.clip(0, low, high), jnp.where(g > 0, low, jnp.where(g < 0, high, g))
            ),
            wide,
            *self._bounds(wide),
        )
        return _trees.cast_like(vertex, gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        """Return the midpoint; the point nearest 0 in a direction with an infinite bound.

        It is the prox-center of the entropy, and of ½‖x − midpoint‖², whose divergence is that of
        ½‖x‖².
        """
        like = shape_from(like, self._own_shape(), type(self).__name__)
        return _trees.cast_like(jax.tree.map(_midpoint, *self._bounds(like)), like)

    def _bounds(self, like: Params) -> tuple[Params, Params]:
        lower = _trees.broadcast("lower", self.lower, like)
        return lower, _trees.broadcast("upper", self.upper, like)

    def _own_shape(self) -> Params:
        return jax.tree.map(
            lambda low, high: jax.ShapeDtypeStruct(
                np.broadcast_shapes(np.shape(low), np.shape(high)), _trees.wide_dtype((low, high))
            ),
            *_matched(self.lower, self.upper),
        )

    def _widths(self, like: Params) -> Params:
        _validation.check_bounded(type(self).__name__, *jax.tree.leaves((self.lower, self.upper)))
        lower, upper = self._bounds(like)
        return jax.tree.map(jnp.subtract, upper, lower)


@register
class Box(BoxSet, Euclidean):
    """The box l ≤ x ≤ u with R = ½‖·‖₂².

    Norm and dual norm ‖·‖₂; D² = ½·Σ(uᵢ − lᵢ)², exactly. The projection clips, 2 flops an entry.
    A bound may be infinite: then the set is unbounded and a diameter must be given to the method.

    Attributes:
        lower: l, a scalar or a tree prefix of the params; each leaf broadcasts to its params.
        upper: u ≥ l, likewise.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.Box(lower=0.0, upper=1.0).project({"a": jnp.array([-1.0, 0.5]), "b": 7.0})
        {'a': Array([0. , 0.5], dtype=float32), 'b': Array(1., dtype=float32)}
    """

    lower: Params = 0.0
    upper: Params = 1.0

    def __post_init__(self) -> None:
        _check_bounds(self.lower, self.upper)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return _trees.cast_like(self.project(gradient_step(mirror, gradient, step_size)), mirror)

    def entrywise_step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> StepFunction:
        del mirror, gradient
        return functools.partial(self.step, step_size=step_size)

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        clipped = jax.tree.map(_trees.clip, wide, *self._bounds(wide))
        return _trees.cast_like(clipped, point)

    def diameter(self, like: Params) -> Array:
        widths = self._widths(like)
        return root(_trees.vdot(widths, widths) / 2)


@register
class EntropicBox(BoxSet):
    """The box l ≤ x ≤ u with the Fermi-Dirac entropy.

    With w = u − l and p = (x − l)/w, R = Σ(wᵢ²/4)·(pᵢ·log pᵢ + (1 − pᵢ)·log(1 − pᵢ)). Norm and
    dual norm ‖·‖₂. Mirror coordinates are the logits log(p/(1 − p)) = 4·∇R/w, and a step adds
    −4·s·g/w to them, some 10 flops an entry with the sigmoid: points reach a bound to the eye, and
    leave it again, without ever being projected.

    D² = ¼·log 2·Σwᵢ² is the range of R from its center, a heuristic: the supremum of the divergence
    is infinite. `project` is that of `Box`, and `to_mirror` keeps p in [ε, 1 − ε] (ε the spacing of
    the dtype at 1), so that every point of the box can be a start.

    Attributes:
        lower: l, finite, a scalar or a tree prefix of the params; each leaf broadcasts.
        upper: u ≥ l, finite, likewise.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> box = ux.EntropicBox(lower=-1.0, upper=1.0)
        >>> mirror = box.step(box.to_mirror(jnp.zeros(2)), jnp.array([-1.0, 500.0]), 1.0)
        >>> box.to_point(mirror)
        Array([ 0.7615942, -1.       ], dtype=float32)
    """

    lower: Params = 0.0
    upper: Params = 1.0

    def __post_init__(self) -> None:
        _check_bounds(self.lower, self.upper)
        for bound in map(_validation.concrete, jax.tree.leaves((self.lower, self.upper))):
            if bound is not None and not np.all(np.isfinite(bound)):
                raise ValueError(
                    f"EntropicBox needs finite bounds, not lower={self.lower}, upper={self.upper}; "
                    "Box allows infinite ones."
                )

    def to_mirror(self, point: Params) -> Mirror:
        wide = _trees.unify(point)
        eps = jnp.finfo(_trees.wide_dtype(wide)).eps

        def logit(x: Array, low: Array, high: Array) -> Array:
            width = high - low
            inverse = 1 / jnp.where(width > 0, width, 1)
            below, above = (_trees.clip(part * inverse, eps, 1) for part in (x - low, high - x))
            return jnp.where(width > 0, jnp.log(below) - jnp.log(above), 0 * x)

        return _trees.cast_like(jax.tree.map(logit, wide, *self._bounds(wide)), point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        lower, upper = self._bounds(_trees.unify(mirror))

        def slope(g: Array, low: Array, high: Array) -> Array:
            width = high - low
            return 4 * jnp.asarray(g, width.dtype) / jnp.where(width > 0, width, jnp.inf)

        slopes = jax.tree.map(slope, gradient, lower, upper)
        return _trees.cast_like(gradient_step(mirror, slopes, step_size), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        wide = _trees.unify(mirror)

        def entry(logit: Array, low: Array, high: Array) -> Array:
            """Return l + w·p or u − w·(1 − p), whichever is the smaller step from its bound."""
            negative = logit < 0
            part = (high - low) * jax.nn.sigmoid(jnp.where(negative, logit, -logit))
            return _trees.clip(jnp.where(negative, low + part, high - part), low, high)

        return _trees.cast_like(jax.tree.map(entry, wide, *self._bounds(wide)), mirror)

    def project(self, point: Params) -> Params:
        return Box(self.lower, self.upper).project(point)

    def squared_norm(self, difference: Params) -> Array:
        return _trees.vdot(difference, difference)

    def diameter(self, like: Params) -> Array:
        widths = self._widths(like)
        return root(_trees.vdot(widths, widths) * (math.log(2) / 4))


def _check_bounds(lower: Params, upper: Params) -> None:
    if lower is None or upper is None:  # an axis specification for jax.vmap
        return
    for low, high in zip(*map(jax.tree.leaves, _matched(lower, upper)), strict=True):
        _validation.check_real("lower", low)
        _validation.check_real("upper", high)
        least, most = _validation.concrete(low), _validation.concrete(high)
        if least is None or most is None:
            continue
        if not np.all(least <= most):
            raise ValueError(
                f"lower must be at most upper everywhere, but lower={low} and upper={high}."
            )
        if np.any(least == np.inf) or np.any(most == -np.inf):
            raise ValueError(f"the box is empty: lower={low} and upper={high}.")


def _matched(lower: Params, upper: Params) -> tuple[Params, Params]:
    """Return both bounds with the structure of the finer one.

    Raises:
        ValueError: if neither is a tree prefix of the other.
    """
    with contextlib.suppress(ValueError):
        return jax.tree.broadcast(lower, upper), upper
    with contextlib.suppress(ValueError):
        return lower, jax.tree.broadcast(upper, lower)
    raise ValueError(
        f"one of lower and upper must be a tree prefix of the other, but lower={lower} and "
        f"upper={upper}."
    )


def _midpoint(lower: Array, upper: Array) -> Array:
    bounded = jnp.isfinite(lower) & jnp.isfinite(upper)
    return jnp.where(bounded, lower / 2 + upper / 2, jnp.clip(0, lower, upper))
