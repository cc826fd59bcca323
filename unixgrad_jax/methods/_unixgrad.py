"""UniXGrad, Algorithm 2 of Kavis, Levy, Bach and Cevher (NeurIPS 2019)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from unixgrad_jax import _trees, _validation
from unixgrad_jax._template import Average, prox_then_average
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._transform import check_not_masked, check_update, displacement


class UniXGradState(NamedTuple):
    """What the next half of an iteration needs.

    Point-like fields have the structure of params, leaves in the params' dtype but at least
    float32; scalars are in the widest of these.

    Attributes:
        step: t − 1, the number of finished iterations, int32.
        halfway: whether M_t has been used and g_t is awaited, bool.
        anchor: mirror coordinates ∇R(y_{t−1}) of the point that both prox steps start from.
        average: x̄, the weighted average of the iterates x_1, x_2, ..., the method's answer.
        remainder: what rounding left out of `average`, so that the mean neither stalls nor drifts.
        hint: M_t, the gradient at the extrapolated point z̃_t; None where a whole iteration is
            one call (the opaque mode, and `solve`), since nothing then waits for g_t.
        sum_squares: Σ_{i<t} α_i²·‖g_i − M_i‖*², the denominator of the learning rate without the
            offset; it starts at ‖M_1‖*² with offset=None.
    """

    step: Array
    halfway: Array
    anchor: Mirror
    average: Params
    remainder: Params
    hint: Gradient | None
    sum_squares: Array


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
        diameter: D ≥ 0, a scalar; by default `geometry.diameter(params)`.
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

    def init_fn(params: Params) -> Any:
        state = init(geometry, params)
        return state if opaque else state._replace(hint=optax.tree.zeros_like(state.average))

    def update_half(
        updates: Gradient, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Params, Any]:
        del extra_args
        params = check_update(updates, params)
        state, query = half_iteration(geometry, state, updates, diameter, offset)
        return displacement(query, params), state

    def update_opaque(
        updates: Gradient,
        state: Any,
        params: Params | None = None,
        *,
        grad_fn: Callable[[Params], Gradient] | None = None,
        **extra_args: Any,
    ) -> tuple[Params, Any]:
        del extra_args
        params = check_update(updates, params)
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

    update_fn = update_opaque if opaque else update_half
    return optax.GradientTransformationExtraArgs(init_fn, update_fn)


def check_hyperparameters(
    geometry: Geometry, diameter: Scalar | None, offset: Scalar | None
) -> None:
    """Check the arguments that every way of running the method shares.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    if not isinstance(geometry, Geometry):
        raise TypeError(
            f"geometry must be a unixgrad_jax.Geometry such as L2Ball(), not {geometry!r}."
        )
    if diameter is not None:
        _validation.check_number("diameter", diameter)
    if offset is not None:
        _validation.check_number("offset", offset, positive=True)


def init(geometry: Geometry, params: Params) -> UniXGradState:
    """Return the state before the first iteration, y_0 = x̄_0 = the projection of params.

    Its arrays are copies: params and state can be donated together.
    """
    start = _trees.widen(params)
    if jax.tree.leaves(start):  # optax probes optimizers with a tree that has none
        start = geometry.project(start)
    return UniXGradState(
        step=jnp.zeros((), jnp.int32),
        halfway=jnp.zeros((), jnp.bool_),
        anchor=jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), geometry.to_mirror(start)),
        average=jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), start),
        remainder=optax.tree.zeros_like(start),
        hint=None,
        sum_squares=jnp.zeros((), _trees.wide_dtype(start)),
    )


def half_iteration(
    geometry: Geometry,
    state: UniXGradState,
    gradient: Gradient,
    diameter: Scalar | None,
    offset: Scalar | None,
) -> tuple[UniXGradState, Params]:
    """Take the half that is due with the gradient at the last query.

    Both halves are the same prox step from the same anchor and the same averaging step; the
    first keeps the average that it reaches, the second keeps the anchor.

    Returns:
        The new state, and the next point to differentiate at.
    """
    second = state.halfway
    alpha, this_weight, next_weight = weights(state.step, state.sum_squares.dtype)
    gradient = _trees.cast_like(gradient, state.average)
    innovation = geometry.squared_dual_norm(optax.tree.sub(gradient, state.hint))
    if offset is None:  # the hint is still zero at the very first gradient
        first_ever = (state.step == 0) & ~second
        state = state._replace(sum_squares=jnp.where(first_ever, innovation, state.sum_squares))
    eta = learning_rate(geometry, state, diameter, offset)
    moved, query = prox_then_average(
        geometry,
        state.anchor,
        gradient,
        alpha * eta,
        Average(state.average, state.remainder),
        jnp.where(second, next_weight, this_weight),
    )
    state = UniXGradState(
        step=jnp.where(second, optax.safe_increment(state.step), state.step),
        halfway=~second,
        anchor=optax.tree.where(second, moved, state.anchor),
        average=optax.tree.where(second, state.average, query.value),
        remainder=optax.tree.where(second, state.remainder, query.remainder),
        hint=optax.tree.where(second, state.hint, gradient),
        sum_squares=state.sum_squares + jnp.where(second, alpha**2 * innovation, 0),
    )
    return state, query.value


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
    alpha, this_weight, next_weight = weights(state.step, state.sum_squares.dtype)
    hint = _trees.cast_like(hint, state.average)
    if offset is None:
        scale = geometry.squared_dual_norm(hint)
        state = state._replace(sum_squares=jnp.where(state.step == 0, scale, state.sum_squares))
    eta = learning_rate(geometry, state, diameter, offset)
    moved, average = prox_then_average(
        geometry,
        state.anchor,
        hint,
        alpha * eta,
        Average(state.average, state.remainder),
        this_weight,
    )
    gradient = _trees.cast_like(gradient_at(average.value), state.average)
    anchor, query = prox_then_average(
        geometry, state.anchor, gradient, alpha * eta, average, next_weight
    )
    innovation = geometry.squared_dual_norm(optax.tree.sub(gradient, hint))
    state = state._replace(
        step=optax.safe_increment(state.step),
        anchor=anchor,
        average=average.value,
        remainder=average.remainder,
        sum_squares=state.sum_squares + alpha**2 * innovation,
    )
    return Iteration(state, query.value, geometry.to_point(moved), gradient, eta)


def weights(step: Array, dtype: DTypeLike) -> tuple[Array, Array, Array]:
    """Return α_t = t, θ_t = α_t/A_t = 2/(t+1) and θ_{t+1}, after t − 1 finished iterations."""
    alpha = step.astype(dtype) + 1
    return alpha, 2 / (alpha + 1), 2 / (alpha + 2)


def learning_rate(
    geometry: Geometry, state: UniXGradState, diameter: Scalar | None, offset: Scalar | None
) -> Array:
    """Return η_t = 2D/sqrt(offset + Σ_{i<t} α_i²‖g_i − M_i‖*²), 0 while that sum is 0."""
    dtype = state.sum_squares.dtype
    if diameter is None:
        diameter = geometry.diameter(state.average)
    offset = 0 if offset is None else _trees.scalar("offset", offset, dtype)
    return rate(_trees.scalar("diameter", diameter, dtype), state.sum_squares + offset)


def rate(diameter: Array, squares: Array) -> Array:
    """Return 2D/√Σ, 0 while Σ is 0."""
    known = squares > 0
    return jnp.where(known, 2 * diameter / jnp.sqrt(jnp.where(known, squares, 1)), 0)
