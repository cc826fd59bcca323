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
    def increment(self) -> Params:
        """The last change of `average`, which tells what rounding left out of it."""
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
            average: x̄_t after the first half, z̃_{t+1} = x̄_t + θ_{t+1}·(y_t − x̄_t) after the second.
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

    Both halves are the same prox step from the same anchor; the first moves the average to what it
    reaches, the second the anchor.

    A large update costs what it reads and writes, and most where XLA must copy an array before it
    is overwritten. So each new array is computed from others that are new already, the anchor, the
    average, the query, and a step that goes entry by entry is taken again from the new anchor.

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
    size = weights.alpha * eta
    step = None
    if not isinstance(second, bool):
        step = geometry.entrywise_step(state.anchor, gradient, size)
    if step is None:
        moved = geometry.step(state.anchor, gradient, size)
        anchor = choose(second, moved, state.anchor)
        point = first = last = geometry.to_point(moved)
    else:
        anchor = choose(second, step(state.anchor, gradient), state.anchor)
        first, last = geometry.to_point(step(anchor, gradient)), geometry.to_point(anchor)
        point = choose(second, last, first)
    average = move_towards(
        Average(state.average, state.increment), first, weights.theta, stay=second
    )
    half = Half(second, gradient, state.anchor, point, weights.alpha, eta)
    state = rules.learn(geometry, state, half)
    state = replace(state, anchor=anchor, average=average.value, increment=average.increment)
    ahead = jax.tree.map(lambda v, x: v + _fraction(weights.next_theta, x - v), average.value, last)
    return state, rules.query(choose(second, ahead, average.value), point), half


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
    """A weighted mean kept to twice the working precision.

    A plain mean in float32 stalls when its increments fall below half an ulp, and its rounding
    errors, which the averaging remembers for a time proportional to t, carry it out of K. Here the
    next increment makes up for what the last addition left out. That follows from the sum and the
    increment alone, by Knuth's TwoSum (The Art of Computer Programming, vol. 2, sec. 4.2.2, theorem
    B) less a term, at most an ulp, that is 0 unless the sum grows past a power of two.

    Attributes:
        value: the mean, rounded.
        increment: what was added last to get it.
    """

    value: Params
    increment: Params


def move_towards(
    average: Average, point: Params, weight: Array, stay: bool | Array = False
) -> Average:
    """Return x̄ + θ·(x − x̄), leaf by leaf in the dtype of x̄.

    Args:
        average: x̄.
        point: x.
        weight: θ ∈ [0, 1], a scalar.
        stay: whether to return the average as it is.
    """

    def next_increment(value: Array, increment: Array, x: Array) -> Array:
        rest = increment - (value - (value - increment))
        return choose(stay, increment, rest + _fraction(weight, (x - value) - rest))

    increment = jax.tree.map(next_increment, average.value, average.increment, point)
    value = jax.tree.map(lambda v, d: choose(stay, v, v + d), average.value, increment)
    return Average(value, increment)


def _fraction(weight: Array, difference: Array) -> Array:
    """Return θ·d in the dtype of d."""
    return weight.astype(difference.dtype) * difference
