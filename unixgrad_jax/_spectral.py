"""Spectral steps of `minimize`: projected gradients as long as the last change of slope allows."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax import _trees
from unixgrad_jax._evaluation import Evaluate, Point
from unixgrad_jax._packed import while_loop
from unixgrad_jax._search_state import (
    CHECK_EVERY,
    MAX_REJECTIONS,
    Limits,
    Search,
    give_up_if_hopeless,
    report,
    stop_if_converged,
    with_candidate,
)
from unixgrad_jax._types import Array, Gradient, Mirror
from unixgrad_jax.geometries import Geometry, is_euclidean

TURN = 50
"""Steps that have to bring progress; 25, 50, 100, 150, 200, 300 and 400 were compared."""
PROGRESS = 0.5
"""The gap, relative to the one before a turn, that is progress; 0.1, 0.3 and 0.7 made less of it
or as much."""
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


class _Descent(NamedTuple):
    """What the loops carry.

    Attributes:
        search: what is known.
        spectral: where the next step begins.
        helps: whether the last fifty steps halved the gap.
    """

    search: Search
    spectral: Spectral
    helps: Array


def _begin(geometry: Geometry, start: Point, step_size: Array) -> Spectral:
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


def run(
    evaluate: Evaluate,
    search: Search,
    start: Point,
    first_size: Array,
    limits: Limits,
    callback: Callable[..., None] | None,
) -> Search:
    """Take steps from an evaluated point for as long as each fifty of them halve the gap.

    Args:
        evaluate: the problem.
        search: what is known.
        start: the point.
        first_size: λ of the first step.
        limits: when to stop.
        callback: called every few steps, or None.

    Returns:
        What is known then.
    """

    def unfinished(descent: _Descent, end: Array) -> Array:
        search = descent.search
        hopeful = search.rejections <= MAX_REJECTIONS
        return search.running & (search.num_steps < end) & hopeful

    def steps_until(end: Array, descent: _Descent) -> _Descent:
        moved = while_loop(
            lambda d: unfinished(d, end), lambda d: _descend(evaluate, d, limits), descent
        )
        taken = moved.search.num_steps - descent.search.num_steps
        search = moved.search._replace(num_gradients=moved.search.num_gradients + taken)
        return moved._replace(search=search)

    def reported_steps_until(
        end: Array, descent: _Descent, callback: Callable[..., None]
    ) -> _Descent:
        def few(descent: _Descent) -> _Descent:
            soon = jnp.minimum(descent.search.num_steps + CHECK_EVERY, end)
            descent = steps_until(soon, descent)
            report(descent.search, callback)
            return descent

        return while_loop(lambda d: unfinished(d, end), few, descent)

    def turn(descent: _Descent) -> _Descent:
        goal = PROGRESS * descent.search.gap
        end = jnp.minimum(descent.search.num_steps + TURN, limits.max_steps)
        if callback is None:
            descent = steps_until(end, descent)
        else:
            descent = reported_steps_until(end, descent, callback)
        search = give_up_if_hopeless(descent.search, evaluate.rounding, limits)
        return descent._replace(search=search, helps=search.gap < goal)

    spectral = _begin(evaluate.geometry, start, first_size)
    descent = _Descent(search, spectral, helps=jnp.ones((), jnp.bool_))
    return while_loop(lambda d: d.search.running & d.helps, turn, descent).search


def _descend(evaluate: Evaluate, descent: _Descent, limits: Limits) -> _Descent:
    """Take one step, and take over what it shows."""
    search = descent.search
    spectral, point, good = _advance(evaluate, descent.spectral, search.best.value)
    search = with_candidate(evaluate, search, point, good)
    search = search._replace(
        rejections=search.rejections + ~good,
        num_steps=search.num_steps + 1,
    )
    return descent._replace(search=stop_if_converged(search, limits), spectral=spectral)


def _advance(evaluate: Evaluate, spectral: Spectral, best: Array) -> tuple[Spectral, Point, Array]:
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
