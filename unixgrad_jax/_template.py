"""The Mirror-Prox template, the paper's Algorithm 1, written once."""

import abc
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Mirror, Params
from unixgrad_jax.geometries import Geometry


class TemplateState(Protocol):
    """What the state of every method of the template holds.

    Point-like fields have the structure of params, leaves in the params' dtype but at least
    float32.
    """

    @property
    def step(self) -> Array:
        """T − 1, the number of finished iterations, int32."""
        ...

    @property
    def anchor(self) -> Mirror:
        """Mirror coordinates ∇R(y_{t−1}) of the point that both prox steps start from."""
        ...

    @property
    def average(self) -> Params:
        """x̄, the weighted average of the iterates x_1, x_2, ..., the method's answer."""
        ...

    @property
    def remainder(self) -> Params:
        """What rounding left out of `average`, so that the mean neither stalls nor drifts."""
        ...


class Weights(NamedTuple):
    """α_t, θ_t = α_t/Σ_{i≤t} α_i and θ_{t+1}, scalars."""

    alpha: Array
    theta: Array
    next_theta: Array


class Half(NamedTuple):
    """What one half of an iteration saw and did.

    Attributes:
        second: whether it was the half of g_t and y_t, not that of M_t and x_t; bool.
        gradient: M_t or g_t.
        anchor: mirror coordinates of y_{t−1}.
        point: the point reached, x_t or y_t.
        alpha: α_t.
        learning_rate: η_t.
    """

    second: bool | Array
    gradient: Gradient
    anchor: Mirror
    point: Params
    alpha: Array
    learning_rate: Array


State = TypeVar("State", bound=TemplateState)


class Rules(abc.ABC, Generic[State]):
    """The choices that make a method of the template."""

    @abc.abstractmethod
    def weights(self, step: Array, dtype: DTypeLike) -> Weights:
        """Return the weights of iteration t = step + 1."""

    @abc.abstractmethod
    def query(self, average: Params, point: Params) -> Params:
        """Return where the next gradient is taken.

        Args:
            average: x̄ moved by θ towards the point that this half reached: x̄_t after the first
                half, z̃_{t+1} = x̄_t + θ_{t+1}·(y_t − x̄_t) after the second.
            point: that point, x_t or y_t.
        """

    @abc.abstractmethod
    def learning_rate(
        self, geometry: Geometry, state: State, gradient: Gradient, second: bool | Array
    ) -> Array:
        """Return η_t, the same in both halves of an iteration."""

    @abc.abstractmethod
    def learn(self, geometry: Geometry, state: State, half: Half) -> State:
        """Return the state with what later learning rates need of this half."""


def take_half(
    rules: Rules[State],
    geometry: Geometry,
    state: State,
    gradient: Gradient,
    second: bool | Array,
) -> tuple[State, Params, Half]:
    """Take one half of iteration t with the gradient at the last query.

        x_t = argmin_{x∈K} α_t⟨M_t, x⟩ + D_R(x, y_{t−1})/η_t      x̄_t = x̄_{t−1} + θ_t(x_t − x̄_{t−1})
        y_t = argmin_{y∈K} α_t⟨g_t, y⟩ + D_R(y, y_{t−1})/η_t

    Both halves are the same prox step from the same anchor and the same averaging step; the first
    keeps the average that it reaches, the second keeps the anchor.

    Args:
        rules: the method.
        geometry: K and R.
        state: the state; its step is not advanced here.
        gradient: M_t or g_t, with the structure of params.
        second: which half it is; a Python bool where that is known at trace time.

    Returns:
        The new state, the next point to differentiate at, and what this half did.
    """
    dtype = _trees.wide_dtype(state.average)
    weights = rules.weights(state.step, dtype)
    gradient = _trees.cast_like(gradient, state.average)
    eta = rules.learning_rate(geometry, state, gradient, second)
    moved, point, near = prox_then_average(
        geometry,
        state.anchor,
        gradient,
        weights.alpha * eta,
        Average(state.average, state.remainder),
        choose(second, weights.next_theta, weights.theta),
    )
    half = Half(second, gradient, state.anchor, point, weights.alpha, eta)
    state = rules.learn(geometry, state, half)
    state = replace(
        state,
        anchor=choose(second, moved, state.anchor),
        average=choose(second, state.average, near.value),
        remainder=choose(second, state.remainder, near.remainder),
    )
    return state, rules.query(near.value, point), half


def take_turns(
    rules: Rules[State], geometry: Geometry, state: State, gradient: Gradient
) -> tuple[State, Params]:
    """Take the half that is due, by the field `halfway` of the state.

    Returns:
        The new state, and the next point to differentiate at.
    """
    second: Array = state.halfway  # pyright: ignore[reportAttributeAccessIssue]
    state, query, _ = take_half(rules, geometry, state, gradient, second)
    step = jnp.where(second, optax.safe_increment(state.step), state.step)
    return replace(state, step=step, halfway=~second), query


def choose(second: bool | Array, if_second: Any, if_first: Any) -> Any:
    """Return one of two trees, without a select where the half is known at trace time."""
    if isinstance(second, bool):
        return if_second if second else if_first
    return optax.tree.where(second, if_second, if_first)


def replace(state: State, **fields: Any) -> State:
    """Return the named tuple with some fields replaced."""
    return state._replace(**fields)  # pyright: ignore[reportAttributeAccessIssue]


class Average(NamedTuple):
    """A weighted mean kept to twice the working precision, as `value + remainder`.

    A plain mean in float32 stalls when its increments fall below half an ulp, and its rounding
    errors, which the averaging remembers for a time proportional to t, carry it out of K.

    Attributes:
        value: the mean, rounded.
        remainder: what the rounding left out, below half an ulp of `value`.
    """

    value: Params
    remainder: Params


def prox_then_average(
    geometry: Geometry,
    anchor: Mirror,
    gradient: Gradient,
    step_size: Array,
    average: Average,
    weight: Array,
) -> tuple[Mirror, Params, Average]:
    """Take a prox step from the anchor, then move the average towards the point it reaches.

        x = argmin_{x∈K} s·⟨g, x⟩ + D_R(x, y),        x̄ ← x̄ + θ·(x − x̄)

    Args:
        geometry: K and R.
        anchor: mirror coordinates of y.
        gradient: g.
        step_size: s = α·η, a scalar.
        average: x̄, the weighted average so far.
        weight: θ ∈ [0, 1], a scalar.

    Returns:
        The mirror coordinates of x, x itself, and the new average.
    """
    moved = geometry.step(anchor, gradient, step_size)
    point = geometry.to_point(moved)
    return moved, point, move_towards(average, point, weight)


def move_towards(average: Average, point: Params, weight: Array) -> Average:
    """Return x̄ + θ·(x − x̄), leaf by leaf in the dtype of x̄, without rounding it twice.

    The sum of value and increment is split exactly into its rounding and the rest (Knuth's TwoSum;
    The Art of Computer Programming, vol. 2, sec. 4.2.2, theorem B).
    """

    def increment(value: Array, remainder: Array, x: Array) -> Array:
        return remainder + weight.astype(value.dtype) * ((x - value) - remainder)

    def rest(value: Array, change: Array, rounded: Array) -> Array:
        taken = rounded - value
        return (value - (rounded - taken)) + (change - taken)

    change = jax.tree.map(increment, average.value, average.remainder, point)
    rounded = jax.tree.map(lambda value, c: value + c, average.value, change)
    return Average(rounded, jax.tree.map(rest, average.value, change, rounded))
