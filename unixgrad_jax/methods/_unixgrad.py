"""UniXGrad, Algorithm 2 of Kavis, Levy, Bach and Cevher (NeurIPS 2019)."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.typing import DTypeLike

from unixgrad_jax import _trees, _validation
from unixgrad_jax._template import Half, Rules, Weights, choose, take_half, take_turns
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._transform import (
    after,
    check_diameter,
    check_geometry,
    check_not_masked,
    check_update,
    copied,
    displacement,
    ratio,
    set_diameter,
    starting_point,
    transform,
)


class UniXGradState(NamedTuple):
    """What the next half of an iteration needs.

    Point-like fields have the structure of params, leaves in the params' dtype but at least
    float32; scalars are in the widest of these.

    Attributes:
        step: t − 1, the number of finished iterations, int32.
        halfway: whether M_t has been used and g_t is awaited, bool; false where an iteration is
            one call.
        anchor: mirror coordinates ∇R(y_{t−1}) of the point that both prox steps start from.
        average: x̄, the weighted average of the iterates x_1, x_2, ..., the method's answer.
        increment: the last change of `average`, which tells what rounding left out of it: with it,
            the mean neither stalls nor drifts.
        hint: M_t, the gradient at the extrapolated point z̃_t; None where a whole iteration is
            one call (the opaque mode, and `solve`), since nothing then waits for g_t.
        sum_squares: Σ_{i<t} α_i²·‖g_i − M_i‖*², the denominator of the learning rate without the
            offset; it starts at ‖M_1‖*² with offset=None.
    """

    step: Array
    halfway: Array
    anchor: Mirror
    average: Params
    increment: Params
    hint: Gradient | None
    sum_squares: Array

    @property
    def output(self) -> Params:
        """The method's answer, x̄."""
        return self.average


def unixgrad(
    geometry: Geometry,
    *,
    diameter: Scalar | None = None,
    offset: Scalar | None = 1.0,
    opaque: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """Minimize a convex function over a set, with nothing to tune.

    With α_t = t, θ_t = 2/(t+1), η_t = 2D/sqrt(offset + Σ_{i<t} α_i²‖g_i − M_i‖*²), iteration t is

        z̃_t = x̄_{t−1} + θ_t·(y_{t−1} − x̄_{t−1})      M_t = ∇f(z̃_t)
        x_t = argmin_{x∈K} α_t⟨M_t, x⟩ + D_R(x, y_{t−1})/η_t
        x̄_t = x̄_{t−1} + θ_t·(x_t − x̄_{t−1})          g_t = ∇f(x̄_t)
        y_t = argmin_{y∈K} α_t⟨g_t, y⟩ + D_R(y, y_{t−1})/η_t

    In the default, half-step mode, params are always the next point to differentiate at: one
    update takes M_t at z̃_t and moves params to x̄_t, the next takes g_t at x̄_t and moves them to
    z̃_{t+1}. Each half may see a fresh minibatch, and for noisy gradients it should.

    With `opaque=True` one update is a whole iteration: params are z̃_t, the incoming gradient is
    M_t, and g_t comes from `update(..., grad_fn=...)`, a function of the params, called once.

    The answer is x̄: read it with `eval_params`. The state starts at `geometry.project(params)`;
    where the objective is undefined outside K, project the params too, since the first gradient is
    taken where they are. In a chain, put this transform last: it sets params to a point of K, and
    expects the next gradient there. What changes gradients (clipping, weight decay, noise) goes
    before it; a transform after it would move params off that point without the state knowing.

    Args:
        geometry: the constraint set and its mirror map.
        diameter: D = √(sup D_R) ≥ 0, a scalar, which for R = ½‖·‖₂² is the largest distance
            over √2; by default `geometry.diameter(params)`.
        offset: the positive constant in η_t, in units of a squared gradient. The paper's is 1,
            which ties the method to the scale of f. None takes ‖M_1‖*²: the iterates on c·f are
            then those on f.
        opaque: whether one update is a whole iteration.

    Returns:
        An `optax.GradientTransformationExtraArgs` whose state is a `UniXGradState`.

    Raises:
        TypeError: if `geometry` is not a `Geometry`, or params are complex.
        ValueError: if `diameter` or `offset` is out of range; from `update`, if params are missing,
            the gradient does not match them, or `grad_fn` is missing in opaque mode.

    Example:
        >>> import jax, jax.numpy as jnp, optax, unixgrad_jax as ux
        >>> objective = lambda x: jnp.sum((x - jnp.array([3.0, 4.0])) ** 2)
        >>> optimizer = ux.unixgrad(ux.L2Ball(radius=1.0))
        >>> params = jnp.zeros(2)
        >>> state = optimizer.init(params)
        >>> for _ in range(200):
        ...     updates, state = optimizer.update(jax.grad(objective)(params), state, params)
        ...     params = optax.apply_updates(params, updates)
        >>> ux.eval_params(state, params).round(3)
        Array([0.6, 0.8], dtype=float32)
    """
    check_hyperparameters(geometry, diameter, offset)

    def init_half(params: Params) -> UniXGradState:
        state = init(geometry, params)
        return state._replace(hint=optax.tree.zeros_like(state.average))

    def update_half(state: UniXGradState, gradient: Gradient) -> tuple[UniXGradState, Params]:
        _check_mode(state, opaque=False)
        return take_turns(UniXGradRules(diameter, offset), geometry, state, gradient)

    def update_opaque(
        updates: Gradient,
        state: Any,
        params: Params | None = None,
        *,
        grad_fn: Callable[[Params], Gradient] | None = None,
        **extra_args: Any,
    ) -> tuple[Params, Any]:
        del extra_args
        _check_mode(state, opaque=True)
        params = check_update(updates, params, state.average)
        if grad_fn is None:
            raise ValueError(
                "opaque mode needs update(..., grad_fn=...), a function from params to a gradient. "
                "Without one, use the half-step mode: opaque=False."
            )
        check_not_masked(params)

        def gradient_at(point: Params) -> Gradient:
            gradient = grad_fn(_trees.cast_like(point, params))
            _trees.check_same_structure("grad_fn(params)", gradient, params)
            return gradient

        iteration = iterate(geometry, state, updates, gradient_at, diameter, offset)
        return displacement(iteration.query, params), iteration.state

    def init_opaque(params: Params) -> Any:
        return init(geometry, params)

    if opaque:
        return optax.GradientTransformationExtraArgs(init_opaque, update_opaque)
    return transform(init_half, update_half)


def check_hyperparameters(
    geometry: Geometry, diameter: Scalar | None, offset: Scalar | None
) -> None:
    """Check the arguments that every way of running the method shares.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    check_geometry(geometry)
    check_diameter(diameter)
    if offset is not None:
        _validation.check_number("offset", offset, positive=True)


def _check_mode(state: UniXGradState, *, opaque: bool) -> None:
    if (state.hint is None) != opaque:
        of, wanted = ("half-step", "opaque") if opaque else ("opaque", "half-step")
        raise ValueError(
            f"this state comes from the {of} mode; the {wanted} mode needs one from its own init."
        )


def init(geometry: Geometry, params: Params) -> UniXGradState:
    """Return the state before the first iteration, y_0 = x̄_0 = the projection of params.

    Its arrays are copies: params and state can be donated together.
    """
    start = starting_point(geometry, params)
    return UniXGradState(
        step=jnp.zeros((), jnp.int32),
        halfway=jnp.zeros((), jnp.bool_),
        anchor=copied(geometry.to_mirror(start)),
        average=copied(start),
        increment=optax.tree.zeros_like(start),
        hint=None,
        sum_squares=jnp.zeros((), _trees.wide_dtype(start)),
    )


class UniXGradRules(Rules[UniXGradState]):
    """Gradients at averages, weights t, and the learning rate of the differences g_t − M_t."""

    def __init__(self, diameter: Scalar | None, offset: Scalar | None) -> None:
        self.diameter = diameter
        self.offset = offset

    def weights(self, step: Array, dtype: DTypeLike) -> Weights:
        return weights(step, dtype)

    def query(self, average: Params, point: Params) -> Params:
        del point
        return average

    def learning_rate(
        self, geometry: Geometry, state: UniXGradState, gradient: Gradient, second: bool | Array
    ) -> Array:
        """Return η_t = 2D/sqrt(offset + Σ_{i<t} α_i²‖g_i − M_i‖*²), 0 while that sum is 0."""
        dtype = state.sum_squares.dtype
        offset = 0 if self.offset is None else _trees.scalar("offset", self.offset, dtype)
        squares = self._scale(geometry, state, gradient, second) + offset
        return rate(set_diameter(geometry, self.diameter, state.average), squares)

    def learn(self, geometry: Geometry, state: UniXGradState, half: Half) -> UniXGradState:
        squares = self._scale(geometry, state, half.gradient, half.second)
        if half.second is False:
            return state._replace(hint=half.gradient, sum_squares=squares)
        hint = choose(half.second, state.hint, half.gradient)
        growth = half.alpha**2 * _innovation(half.second, geometry, half.gradient, hint)
        hint = None if half.second is True else hint
        return state._replace(hint=hint, sum_squares=squares + growth)

    def _scale(
        self, geometry: Geometry, state: UniXGradState, gradient: Gradient, second: bool | Array
    ) -> Array:
        """Return the sum of squares, which without an offset starts at ‖M_1‖*²."""
        if self.offset is not None or second is True:
            return state.sum_squares
        first = (state.step == 0) & jnp.logical_not(second)
        return state.sum_squares + _innovation(first, geometry, gradient)


@functools.partial(jax.jit, inline=True)
def _innovation(
    needed: bool | Array, geometry: Geometry, gradient: Gradient, hint: Gradient | None = None
) -> Array:
    """Return ‖g − M‖*², M = 0 by default, where it is needed, and 0 elsewhere.

    A CPU does not compute it there. Other devices do: a branch would make the host wait for them.
    """

    def norm() -> Array:
        change = gradient if hint is None else optax.tree.sub(gradient, hint)
        return geometry.squared_dual_norm(change)

    def only_there() -> Array:
        return lax.cond(needed, norm, lambda: jnp.zeros((), _trees.wide_dtype(gradient)))

    return lax.platform_dependent(cpu=only_there, default=lambda: jnp.where(needed, norm(), 0))


class Iteration(NamedTuple):
    """A whole iteration: the new state, z̃_{t+1} to differentiate at next, what there is to see."""

    state: UniXGradState
    query: Params
    last: Params
    gradient: Gradient
    learning_rate: Array


def iterate(
    geometry: Geometry,
    state: UniXGradState,
    hint: Gradient,
    gradient_at: Callable[[Params], Gradient],
    diameter: Scalar | None,
    offset: Scalar | None,
) -> Iteration:
    """Take both halves of iteration t, given M_t and the gradient oracle for g_t at x̄_t."""
    rules = UniXGradRules(diameter, offset)
    state, query, first = take_half(rules, geometry, state, hint, False)
    state, query, second = take_half(rules, geometry, state, gradient_at(query), True)
    state = state._replace(step=after(state.step))
    return Iteration(state, query, first.point, second.gradient, second.learning_rate)


def weights(step: Array, dtype: DTypeLike) -> Weights:
    """Return α_t = t, θ_t = 2/(t+1) and θ_{t+1}, after t − 1 finished iterations."""
    alpha = step.astype(dtype) + 1
    return Weights(alpha, 2 / (alpha + 1), 2 / (alpha + 2))


def rate(diameter: Array, squares: Array) -> Array:
    """Return 2D/√Σ, 0 while Σ is 0."""
    return ratio(2 * diameter, squares)
