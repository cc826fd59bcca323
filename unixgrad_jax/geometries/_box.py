"""Boxes with the Euclidean mirror map."""

import jax
import jax.numpy as jnp
import numpy as np

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import Euclidean, gradient_step, register, shape_from


@register
class Box(Euclidean):
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
        if self.lower is None or self.upper is None:  # an axis specification for jax.vmap
            return
        for lower, upper in zip(
            *map(jax.tree.leaves, _matched(self.lower, self.upper)), strict=True
        ):
            low, high = _validation.concrete(lower), _validation.concrete(upper)
            if low is None or high is None:
                continue
            if not np.all(low <= high):
                raise ValueError(
                    f"lower must be at most upper everywhere, but lower={lower} and upper={upper}."
                )
            if np.any(low == np.inf) or np.any(high == -np.inf):
                raise ValueError(f"the box is empty: lower={lower} and upper={upper}.")

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return _trees.cast_like(self.project(gradient_step(mirror, gradient, step_size)), mirror)

    def project(self, point: Params) -> Params:
        wide = _trees.unify(point)
        clipped = jax.tree.map(jnp.clip, wide, *self._bounds(wide))
        return _trees.cast_like(clipped, point)

    def violation(self, point: Params) -> Array:
        wide = _trees.unify(point)
        excess = jax.tree.map(
            lambda x, low, high: jnp.maximum(low - x, x - high), wide, *self._bounds(wide)
        )
        return jnp.maximum(_trees.largest(excess, _trees.wide_dtype(wide)), 0)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return _trees.vdot(gradient, gradient)

    def diameter(self, like: Params) -> Array:
        _validation.check_bounded("Box", *jax.tree.leaves((self.lower, self.upper)))
        lower, upper = self._bounds(like)
        widths = jax.tree.map(jnp.subtract, upper, lower)
        squared = _trees.vdot(widths, widths) / 2
        return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1)), 0)

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

        The midpoint is the prox-center of ½‖x − midpoint‖², which has the same divergence as R.
        """
        like = shape_from(like, self._own_shape(), "Box")
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


def _matched(lower: Params, upper: Params) -> tuple[Params, Params]:
    """Return both bounds with the structure of the finer one."""
    try:
        return jax.tree.broadcast(lower, upper), upper
    except ValueError:
        return lower, jax.tree.broadcast(upper, lower)


def _midpoint(lower: Array, upper: Array) -> Array:
    bounded = jnp.isfinite(lower) & jnp.isfinite(upper)
    return jnp.where(bounded, lower / 2 + upper / 2, jnp.clip(0, lower, upper))
