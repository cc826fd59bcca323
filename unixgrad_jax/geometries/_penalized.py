"""A set that carries a penalty."""

import jax
import numpy as np

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._balls import L2Ball
from unixgrad_jax.geometries._base import Geometry
from unixgrad_jax.geometries._norm_penalties import GroupNorm, NuclearNorm
from unixgrad_jax.geometries._penalties import ElasticNet, L1Norm, Penalty, SquaredL2Norm
from unixgrad_jax.geometries._register import register


@register
class Penalized(Geometry):
    """A set K with a penalty h: the methods then minimize f + h over K, with gradients of f alone.

    Each step handles h exactly, in closed form, so that a non-smooth h costs no rate, and the
    certificate includes it. Norm, diameter, start and projection are those of the set; the step
    costs its projection and a few flops an entry (an SVD for the nuclear norm).

    Pairs with a closed form: `L1Norm` and `ElasticNet` on a `Box`, an `L2Ball` around 0 or an
    `Unconstrained`; `GroupNorm` and `NuclearNorm` on an `L2Ball` around 0 or an `Unconstrained`;
    `SquaredL2Norm` on every Euclidean set.

    Args:
        geometry: the set, with the Euclidean mirror map.
        penalty: the penalty.

    Raises:
        TypeError: if `geometry` is not a geometry, or `penalty` not a penalty.
        ValueError: if the pair has no closed form.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> lasso = ux.Penalized(ux.L2Ball(10.0), ux.L1Norm(weight=1.0))
        >>> lasso.step(jnp.zeros(3), gradient=jnp.array([-3.0, -0.5, 2.0]), step_size=1.0)
        Array([ 2.,  0., -1.], dtype=float32)
        >>> lasso.penalty(jnp.array([2.0, 0.0, -1.0]))
        Array(3., dtype=float32)
    """

    base: Geometry
    term: Penalty

    def __init__(self, geometry: Geometry, penalty: Penalty) -> None:
        if not isinstance(geometry, Geometry):
            raise TypeError(f"geometry must be a unixgrad_jax.Geometry, not {geometry!r}.")
        if not isinstance(penalty, Penalty):
            raise TypeError(f"penalty must be one of {_names(PENALTIES)}, not {penalty!r}.")
        if not isinstance(geometry, penalty.sets) or _off_center(geometry, penalty):
            raise ValueError(
                f"{type(penalty).__name__} on {geometry!r} has no closed form. These pairs do: "
                + "; ".join(f"{kind.__name__} on {_names(kind.sets)}" for kind in PENALTIES)
                + " (an L2Ball around 0)."
            )
        object.__setattr__(self, "base", geometry)
        object.__setattr__(self, "term", penalty)

    def to_mirror(self, point: Params) -> Mirror:
        return self.base.to_mirror(point)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return _trees.cast_like(self.term.step(self.base, mirror, gradient, step_size), mirror)

    def to_point(self, mirror: Mirror) -> Params:
        return self.base.to_point(mirror)

    def squared_dual_norm(self, gradient: Gradient) -> Array:
        return self.base.squared_dual_norm(gradient)

    def squared_norm(self, difference: Params) -> Array:
        return self.base.squared_norm(difference)

    def diameter(self, like: Params) -> Array:
        return self.base.diameter(like)

    def minimize_linear(self, gradient: Gradient) -> Params:
        return _trees.cast_like(self.term.minimize_linear(self.base, gradient), gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        return self.base.interior_point(like)

    def project(self, point: Params) -> Params:
        return self.base.project(point)

    def violation(self, point: Params) -> Array:
        return self.base.violation(point)

    def penalty(self, point: Params) -> Array:
        return self.term.value(point)

    def check(self, like: Params, *, oracle: bool = False) -> None:
        self.base.check(like)
        if oracle:
            self.term.check_oracle(self.base)


PENALTIES = (L1Norm, ElasticNet, SquaredL2Norm, GroupNorm, NuclearNorm)


def _off_center(geometry: Geometry, penalty: Penalty) -> bool:
    """Return whether a ball has a center other than 0 that the penalty cannot do with."""
    if not isinstance(geometry, L2Ball) or isinstance(penalty, SquaredL2Norm):
        return False
    centers = map(_validation.concrete, jax.tree.leaves(geometry.center))
    return any(center is not None and bool(np.any(center)) for center in centers)


def _names(kinds: tuple[type, ...]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)
