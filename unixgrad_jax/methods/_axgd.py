"""Accelerated extra-gradient descent (Diakonikolas and Orecchia, 2018)."""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax import _trees, _validation
from unixgrad_jax._template import Average, move_towards
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._transform import after, check_geometry, copied, starting_point, transform
from unixgrad_jax.methods._unixgrad import weights


class AXGDState(NamedTuple):
    """What the next half of an iteration needs.

    Attributes:
        step: k − 1, the number of finished iterations, int32.
        halfway: whether the gradient at x̂ has been used and that at x⁺ is awaited, bool.
        anchor: mirror coordinates ∇ψ(x_0) of the start.
        slope: Σ_{i<k} a_i·∇f(x_i)/A_{k−1}, the average of the gradients at x_1, x_2, ...; the
            method's z is ∇ψ(x_0) − A_{k−1}·slope.
        slope_increment: the last change of `slope`, which tells what rounding left out of it.
        average: x_k, itself an average, the method's answer.
        increment: the last change of `average`, which tells what rounding left out of it.
    """

    step: Array
    halfway: Array
    anchor: Mirror
    slope: Gradient
    slope_increment: Gradient
    average: Params
    increment: Params

    @property
    def output(self) -> Params:
        """The method's answer, x_k."""
        return self.average


def axgd(geometry: Geometry, smoothness: Scalar) -> optax.GradientTransformationExtraArgs:
    """Accelerated extra-gradient descent, for a known smoothness constant.

    With a_k = k/(2L), A_k = Σ_{i≤k} a_i, z_0 = ∇ψ(x_0) and ∇ψ*(z) = argmin_{x∈K} ψ(x) − ⟨z, x⟩,

        x̂ = (A_{k−1}·x + a_k·∇ψ*(z))/A_k             ẑ = z − a_k·∇f(x̂)
        x⁺ = (A_{k−1}·x + a_k·∇ψ*(ẑ))/A_k            z⁺ = z − a_k·∇f(x⁺)

    The answer, read by `eval_params`, is x⁺ (Diakonikolas and Orecchia, "Accelerated extra-gradient
    descent: a novel accelerated first-order method", ITCS 2018). For an L-smooth f its error after
    T iterations is at most 4L·D_R(x*, x_0)/(T(T+1)). With noisy gradients the steps, which grow
    like k, add up the noise.

    Params are always the next point to differentiate at: one update moves them from x̂ to x⁺, the
    next to the x̂ of the next iteration. In a chain, put this transform last.

    Args:
        geometry: the constraint set and its mirror map, 1-strongly convex in its norm.
        smoothness: L > 0, a Lipschitz constant of ∇f from the norm of the geometry to its dual.

    Raises:
        TypeError: if `geometry` is not a `Geometry`, or params are complex.
        ValueError: if `smoothness` is not positive; from `update`, if params are missing or the
            gradient does not match them.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 200,
        ...                optimizer=ux.axgd(ux.L2Ball(1.0), smoothness=2.0))
        >>> run.params.round(3)
        Array([0.6, 0.8], dtype=float32)
    """
    check_geometry(geometry)
    _validation.check_number("smoothness", smoothness, positive=True)

    def init(params: Params) -> AXGDState:
        start = starting_point(geometry, params)
        return AXGDState(
            step=jnp.zeros((), jnp.int32),
            halfway=jnp.zeros((), jnp.bool_),
            anchor=copied(geometry.to_mirror(start)),
            slope=optax.tree.zeros_like(start),
            slope_increment=optax.tree.zeros_like(start),
            average=copied(start),
            increment=optax.tree.zeros_like(start),
        )

    def advance(state: AXGDState, gradient: Gradient) -> tuple[AXGDState, Params]:
        """Add the gradient to z, and move the average towards the point that z asks for."""
        second = state.halfway
        alpha, this_weight, next_weight = weights(state.step, _trees.wide_dtype(state.average))
        gradient = _trees.cast_like(gradient, state.average)
        slope = move_towards(Average(state.slope, state.slope_increment), gradient, this_weight)
        lipschitz = _trees.scalar("smoothness", smoothness, alpha.dtype)
        reach = alpha * (alpha + 1) / (4 * lipschitz)
        point = geometry.to_point(geometry.step(state.anchor, slope.value, reach))
        query = move_towards(
            Average(state.average, state.increment),
            point,
            jnp.where(second, next_weight, this_weight),
        )
        state = AXGDState(
            step=jnp.where(second, after(state.step), state.step),
            halfway=~second,
            anchor=state.anchor,
            slope=optax.tree.where(second, slope.value, state.slope),
            slope_increment=optax.tree.where(second, slope.increment, state.slope_increment),
            average=optax.tree.where(second, state.average, query.value),
            increment=optax.tree.where(second, state.increment, query.increment),
        )
        return state, query.value

    return transform(init, advance)
