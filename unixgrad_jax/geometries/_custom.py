"""Sets that the user describes: the whole space, and any set with a projection."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries._base import FullSpace, StepFunction, gradient_step, zeros
from unixgrad_jax.geometries._register import register


@register
class Unconstrained(FullSpace):
    """The whole space ℝⁿ with R = ½‖·‖₂², and a diameter of the user's.

    Norm and dual norm ‖·‖₂. D is what the theory needs bounded: with all iterates within a distance
    ρ of each other, D = ρ/√2. The projection does nothing; there is no linear minimization oracle,
    hence no certificate.

    Args:
        diameter: D = sup ‖x − y‖₂/√2 ≥ 0 over the points that matter, a scalar; may be left out
            where the method is given one.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> ux.Unconstrained(diameter=3.0).diameter(jnp.zeros(2))
        Array(3., dtype=float32)
    """

    own_diameter: Scalar | None

    def __init__(self, diameter: Scalar | None = None) -> None:
        if diameter is not None:
            _validation.check_number("diameter", diameter)
        object.__setattr__(self, "own_diameter", diameter)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        return _trees.cast_like(gradient_step(mirror, gradient, step_size), mirror)

    def entrywise_step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> StepFunction:
        del mirror, gradient
        return functools.partial(self.step, step_size=step_size)

    def project(self, point: Params) -> Params:
        return _trees.as_floating(point)

    def violation(self, point: Params) -> Array:
        """Return 0, or NaN where the point is not finite."""
        nothing = jax.tree.map(lambda x: 0 * x, _trees.unify(point))
        return _trees.total(nothing, _trees.wide_dtype(point))

    def diameter(self, like: Params) -> Array:
        return _given_diameter("Unconstrained", self.own_diameter, like)

    def minimize_linear(self, gradient: Gradient) -> Params:
        del gradient
        raise ValueError(
            "an Unconstrained problem has no linear minimization oracle: a linear function has no "
            "minimum on ℝⁿ. For a certificate, give a ball or a box that contains the solution."
        )

    def interior_point(self, like: Params | None = None) -> Params:
        return zeros(like, "Unconstrained")


@register
class FromProjection(FullSpace):
    """Any closed convex set, given by its Euclidean projection, with R = ½‖·‖₂².

    Norm and dual norm ‖·‖₂; D is the user's. A step is the projection of y − s·g, as accurate and
    as fast as the function. `violation` is the largest change that projecting makes to an entry.

    Args:
        projection: `projection(params) -> params`, the nearest point of the set; compiled once and
            compared by equality, so define it once. From `optax.projections`, for example.
        diameter: D = sup ‖x − y‖₂/√2 ≥ 0, a scalar; may be left out where the method is given one.
        minimize_linear: `minimize_linear(gradient) -> params`, a point of argmin_{v∈K} ⟨g, v⟩; only
            certificates need it.

    Example:
        >>> import jax.numpy as jnp, optax, unixgrad_jax as ux
        >>> orthant = ux.FromProjection(optax.projections.projection_non_negative, diameter=10.0)
        >>> orthant.project(jnp.array([-1.0, 2.0]))
        Array([0., 2.], dtype=float32)
    """

    own_diameter: Scalar | None
    projection: Callable[[Params], Params] = dataclasses.field(metadata={"static": True})
    oracle: Callable[[Gradient], Params] | None = dataclasses.field(metadata={"static": True})

    def __init__(
        self,
        projection: Callable[[Params], Params],
        diameter: Scalar | None = None,
        minimize_linear: Callable[[Gradient], Params] | None = None,
    ) -> None:
        _check_function("projection", projection)
        if minimize_linear is not None:
            _check_function("minimize_linear", minimize_linear)
        if diameter is not None:
            _validation.check_number("diameter", diameter)
        object.__setattr__(self, "own_diameter", diameter)
        object.__setattr__(self, "projection", projection)
        object.__setattr__(self, "oracle", minimize_linear)

    def step(self, mirror: Mirror, gradient: Gradient, step_size: Scalar) -> Mirror:
        moved = self.projection(gradient_step(mirror, gradient, step_size))
        return self._checked("projection", moved, mirror)

    def project(self, point: Params) -> Params:
        return self._checked("projection", self.projection(_trees.widen(point)), point)

    def violation(self, point: Params) -> Array:
        wide = _trees.unify(point)
        moved = self._checked("projection", self.projection(wide), wide)
        change = jax.tree.map(lambda x, y: jnp.abs(x - y), wide, moved)
        most = jnp.maximum(_trees.largest(change, _trees.wide_dtype(wide)), 0)
        return _trees.keep_nan(most, change)

    def diameter(self, like: Params) -> Array:
        return _given_diameter("FromProjection", self.own_diameter, like)

    def minimize_linear(self, gradient: Gradient) -> Params:
        if self.oracle is None:
            raise ValueError(
                "this FromProjection has no linear minimization oracle: give "
                "FromProjection(..., minimize_linear=...) for certificates."
            )
        vertex = self.oracle(_trees.widen(gradient))
        return self._checked("minimize_linear", vertex, gradient)

    def interior_point(self, like: Params | None = None) -> Params:
        """Return the point of the set nearest to 0, where ½‖x‖² is least."""
        return self.project(zeros(like, "FromProjection"))

    def _checked(self, name: str, result: Params, like: Params) -> Params:
        _trees.check_same_structure(f"{name}(params)", result, like)
        return _trees.cast_like(result, like)


def _check_function(name: str, function: object) -> None:
    if not callable(function):
        raise TypeError(f"{name} must be a function of params, not {function!r}.")
    try:
        hash(function)
    except TypeError:
        raise TypeError(
            f"{name} must be hashable, for compiled code to be found again; "
            f"{type(function).__name__} is not."
        ) from None


def _given_diameter(name: str, diameter: Scalar | None, like: Params) -> Array:
    if diameter is None:
        raise ValueError(
            f"this {name} has no diameter: give one to {name}(..., diameter=D) or to the method."
        )
    return _trees.scalar("diameter", diameter, _trees.wide_dtype(like))
