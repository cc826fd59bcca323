"""The half-step of the Mirror-Prox template (the paper's Algorithm 1), written once."""

import jax

from unixgrad_jax._types import Array, Gradient, Mirror, Params
from unixgrad_jax.geometries import Geometry


def prox_then_average(
    geometry: Geometry,
    anchor: Mirror,
    gradient: Gradient,
    step_size: Array,
    average: Params,
    weight: Array,
) -> tuple[Mirror, Params]:
    """Take a prox step from the anchor, then move the average towards the point it reaches.

        x = argmin_{x∈K} s·⟨g, x⟩ + D_R(x, y),        x̄ ← x̄ + θ·(x − x̄)

    The incremental form keeps the average in K to rounding for any number of steps.

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
    return moved, interpolate(average, geometry.to_point(moved), weight)


def interpolate(average: Params, point: Params, weight: Array) -> Params:
    """Return x̄ + θ·(x − x̄), leaf by leaf in the dtype of x̄."""
    return jax.tree.map(lambda a, x: a + weight.astype(a.dtype) * (x - a), average, point)
