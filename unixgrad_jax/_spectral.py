"""Spectral steps of `minimize`: projected gradients as long as the last change of slope allows."""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax import _trees
from unixgrad_jax._evaluation import Evaluate, Point
from unixgrad_jax._types import Array, Gradient, Mirror
from unixgrad_jax.geometries import Geometry, is_euclidean

SUFFICIENT = 1e-4
"""The share of ‖x⁺ − x‖²/λ by which a step must improve on the reference."""
MEMORY = 10
"""Accepted steps without a better point after which the reference comes down."""
GROWTH, SHRINKAGE = 30.0, 1e-6
"""The most that λ can change by after an accepted step."""
REJECTED = (0.1, 0.5)
"""The least and the most that λ is multiplied by after a rejected one."""
GRID = 4
"""Lengths of steps to a factor of two."""


class Spectral(NamedTuple):
    """Where the next spectral step begins.

    Attributes:
        mirror: mirror coordinates of x.
        gradient: ∇f(x).
        step_size: λ.
        longest: an upper bound on λ, which no curvature bounds along a line.
        reference: the value that the next point has to improve on.
        highest: the largest value accepted since the best one.
        waited: how many were accepted since.
    """

    mirror: Mirror
    gradient: Gradient
    step_size: Array
    longest: Array
    reference: Array
    highest: Array
    waited: Array


def begin(geometry: Geometry, start: Point, step_size: Array) -> Spectral:
    """Return the state at the first point, with the length of the first step."""
    return Spectral(
        mirror=geometry.to_mirror(_trees.unify(start.params)),
        gradient=start.gradient,
        step_size=step_size,
        longest=step_size / jnp.finfo(step_size.dtype).eps,
        reference=start.value,
        highest=start.value,
        waited=jnp.zeros((), jnp.int32),
    )


def move_to(geometry: Geometry, spectral: Spectral, best: Point) -> Spectral:
    """Return the state at the best point so far; the length of the step is kept."""
    return spectral._replace(
        mirror=geometry.to_mirror(_trees.unify(best.params)),
        gradient=best.gradient,
        highest=best.value,
        waited=jnp.zeros((), jnp.int32),
    )


def advance(evaluate: Evaluate, spectral: Spectral, best: Array) -> tuple[Spectral, Point, Array]:
    """Try one step, and take it where its value is good enough.

        x⁺ = argmin_{v∈K} λ⟨∇f(x), v⟩ + D_R(v, x),   λ⁺ ≈ ‖s‖²/⟨s, y⟩

    with s and y the changes of x and of the gradient: the inverse of the curvature along s. For a
    mirror map that is not Euclidean −λ⟨∇f(x), s⟩ stands for ‖s‖² where it is larger.

    Args:
        evaluate: the problem.
        spectral: the state.
        best: the least value so far.

    Returns:
        The state, the evaluated point, taken or not, and whether that is a sound point.
    """
    geometry, size = evaluate.geometry, spectral.step_size
    mirror = geometry.step(spectral.mirror, spectral.gradient, size)
    point = evaluate(geometry.to_point(mirror))
    here = _trees.unify(evaluate.rounded(geometry.to_point(spectral.mirror)))
    way = optax.tree.sub(_trees.unify(point.params), here)
    length = geometry.squared_norm(way)
    if not is_euclidean(geometry):
        # D_R(x⁺, x) + D_R(x, x⁺) for an entropy, whose steps end inside K, and ≥ ‖s‖².
        length = jnp.maximum(length, -size * _trees.vdot(spectral.gradient, way))
    curvature = _trees.vdot(way, optax.tree.sub(point.gradient, spectral.gradient))
    enough = point.value <= spectral.reference - SUFFICIENT * length / size
    finite = jnp.isfinite(point.value) & jnp.isfinite(curvature)
    taken = finite & enough
    curved = curvature > 0
    inverse = jnp.where(curved, length / jnp.where(curved, curvature, 1), jnp.inf)
    least, most = REJECTED
    low = jnp.where(taken, SHRINKAGE, least)
    high = jnp.where(taken, GROWTH, jnp.where(finite, most, least))
    better = finite & (point.value < best)
    highest = jnp.where(
        better,
        point.value,
        jnp.where(taken, jnp.maximum(spectral.highest, point.value), spectral.highest),
    )
    waited = jnp.where(better, 0, spectral.waited + taken)
    renew = waited >= MEMORY
    new = Spectral(
        mirror=mirror,
        gradient=point.gradient,
        step_size=size,
        longest=spectral.longest,
        reference=jnp.where(renew, highest, spectral.reference),
        highest=jnp.where(renew, point.value, highest),
        waited=jnp.where(renew, 0, waited),
    )
    old = new._replace(mirror=spectral.mirror, gradient=spectral.gradient)
    next_size = jnp.clip(inverse, low * size, jnp.minimum(high * size, spectral.longest))
    spectral = optax.tree.where(taken, new, old)
    return spectral._replace(step_size=_on_grid(next_size, spectral.longest)), point, finite


def _on_grid(size: Array, longest: Array) -> Array:
    """Return the nearest of the lengths 2^(j/GRID) times the longest.

    Each length depends on the last bit of all before it, and the path on each length: with lengths
    as they come, another rounding is another path some fifty steps on. On a grid that scales
    with the problem they stay the same but for rare ties.
    """
    return longest * jnp.exp2(jnp.round(GRID * jnp.log2(size / longest)) / GRID)
