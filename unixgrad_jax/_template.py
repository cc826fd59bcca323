"""The half-step of the Mirror-Prox template (the paper's Algorithm 1), written once."""

from typing import NamedTuple

import jax

from unixgrad_jax._types import Array, Gradient, Mirror, Params
from unixgrad_jax.geometries import Geometry


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
) -> tuple[Mirror, Average]:
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
        The mirror coordinates of x, and the new average.
    """
    moved = geometry.step(anchor, gradient, step_size)
    return moved, move_towards(average, geometry.to_point(moved), weight)


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
