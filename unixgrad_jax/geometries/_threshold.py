"""The thresholds that all simplex-like projections share, found without sorting."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._packed import while_loop
from unixgrad_jax._types import Array, Params


def shrink_to_sum(values: Params, target: Array, start: Array) -> Params:
    """Return max(vᵢ − τ, 0), with τ such that the entries of the whole tree sum to `target`.

    The threshold is the root of the convex, decreasing, piecewise linear Σ max(vᵢ − τ, 0) − s,
    found by Newton's method from below, which is monotone and ends after finitely many steps
    (Michelot, "A finite algorithm for finding the projection of a point onto the canonical
    simplex of ℝⁿ", 1986). The last Newton step is applied to the result, not to τ: the sum is
    then right to a few ulp of s for any number of active entries, and the derivatives in the
    values and in s are those of the projection.

    Args:
        values: a tree whose leaves all have one dtype, at least float32, shifted so that the
            largest entry has about the size of s: what is far larger costs digits. −∞ is never
            active; a NaN makes every entry NaN.
        target: s ≥ 0, a scalar.
        start: any lower bound of τ, such as max vᵢ − s; see `threshold_if_active`.
    """
    dtype = _trees.wide_dtype(values)
    threshold = _newton_from_below(*lax.stop_gradient((values, target, start)))
    above = jax.tree.map(lambda v: _trees.at_least(v - threshold, 0), values)
    correction = (_trees.total(above, dtype) - target) / _count_positive(above, dtype)
    return jax.tree.map(lambda v: jnp.where(v <= 0, 0, _trees.at_least(v - correction, 0)), above)


def below_largest(values: Params) -> Params:
    """Return v − max v: 0 at the largest entry, also where it is infinite."""
    top = lax.stop_gradient(_trees.largest(values, _trees.wide_dtype(values)))
    return jax.tree.map(lambda v: jnp.where(jnp.isinf(top) & (v == top), 0, v - top), values)


def threshold_if_active(values: Params, last: Params, target: Array) -> Array:
    """Return the τ that would be right if just those entries were active that are not 0 in `last`.

    A lower bound of the true threshold for any set S, since Σ_S (vᵢ − τ) ≤ Σ max(vᵢ − τ, 0); and
    the threshold itself for the right one, so that Newton's method has nothing left to do. For
    none, −s.
    """
    kept = jax.tree.map(lambda v, x: jnp.where(x == 0, 0, v), values, last)
    count = _count_positive(jax.tree.map(jnp.abs, last), target.dtype)
    return (_trees.total(kept, target.dtype) - target) / count


def _newton_from_below(values: Params, target: Array, start: Array) -> Array:
    """Return the root of Σ max(vᵢ − τ, 0) − s to rounding, approached from below."""
    dtype = target.dtype
    tolerance = 4 * jnp.finfo(dtype).eps * target

    def unfinished(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def refine(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        threshold, _ = carry
        above = jax.tree.map(lambda v: jnp.maximum(v - threshold, 0), values)
        excess = _trees.total(above, dtype) - target
        refined = threshold + excess / _count_positive(above, dtype)
        advances = (excess > tolerance) & (refined > threshold)
        return jnp.where(advances, refined, threshold), advances

    return lax.while_loop(unfinished, refine, (start, jnp.array(True)))[0]


def _count_positive(sizes: Params, dtype: jnp.dtype) -> Array:
    """Return how many of the entries, all ≥ 0, are not 0; to rounding, and at least 1.

    As a sum of floats it takes XLA on CPU one pass, where a count of integers takes three.
    """
    return jnp.maximum(_trees.total(jax.tree.map(jnp.sign, sizes), dtype), 1)


def clip_to_sum(values: Params, target: Array, cap: Array, threshold: Array) -> Params:
    """Return clip(vᵢ − τ, 0, c), with τ such that the entries of the whole tree sum to `target`.

    As in `shrink_to_sum`, the last Newton step is applied to the result.

    Args:
        values: a tree whose leaves all have one dtype, at least float32; a NaN makes entries NaN.
        target: s, a scalar in [0, n·c].
        cap: c ≥ 0, a scalar.
        threshold: τ to rounding, from `capped_threshold`.
    """
    above = jax.tree.map(lambda v: v - lax.stop_gradient(threshold), values)
    inner = jax.tree.map(lambda v: (v > 0) & (v < cap), above)
    clipped = jax.tree.map(lambda v: _clip(v, cap), above)
    inner_count = jnp.maximum(_trees.count(inner, target.dtype), 1)
    correction = (_trees.total(clipped, target.dtype) - target) / inner_count
    return jax.tree.map(lambda v, on: jnp.where(on, _clip(v - correction, cap), v), clipped, inner)


def capped_threshold(
    values: Params, target: Array, cap: Array, bracket: tuple[Array, Array], start: Array
) -> Array:
    """Return a τ inside the bracket at which Σ clip(vᵢ − τ, 0, c) is s, to rounding; a constant."""

    def excess(threshold: Array) -> tuple[Array, Array]:
        above = jax.tree.map(lambda v: v - threshold, fixed)
        inner = jax.tree.map(lambda v: (v > 0) & (v < limit), above)
        clipped = jax.tree.map(lambda v: jnp.clip(v, 0, limit), above)
        return _trees.total(clipped, goal.dtype) - goal, _trees.count(inner, goal.dtype)

    fixed, goal, limit, (low, high), start = lax.stop_gradient(
        (values, target, cap, bracket, start)
    )
    return root_of_decreasing(excess, low, high, start, 2 * jnp.finfo(goal.dtype).eps * goal)


def _clip(value: Array, cap: Array) -> Array:
    """Return clip(v, 0, c), which is c itself where v exceeds it, NaN where v is NaN."""
    return jnp.where(value >= cap, cap, jnp.where(value <= 0, 0, value))


def root_of_decreasing(
    evaluate: Callable[[Array], tuple[Array, Array]],
    low: Array,
    high: Array,
    start: Array,
    tolerance: Array,
) -> Array:
    """Return the roots of decreasing, piecewise linear functions, one an entry.

    Newton's method inside a bracket, and a bisection where a step of it has not halved the value:
    from the right piece on it is exact, and every second step halves the value or the bracket.

    Args:
        evaluate: maps points to values and to the sizes of the slopes, all of one shape.
        low: lower ends of the brackets, where the values are ≥ 0.
        high: upper ends, where they are ≤ 0.
        start: the first guesses; those outside their bracket are replaced by its middle.
        tolerance: the size of a value that counts as 0.
    """

    def unfinished(carry: tuple[Array, ...]) -> Array:
        return jnp.any(~carry[3])

    def refine(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, point, finished, last = carry
        value, slope = evaluate(point)
        low = jnp.where(value > 0, point, low)
        high = jnp.where(value < 0, point, high)
        newton = point + value / jnp.maximum(slope, 1)
        middle = low / 2 + high / 2
        usable = (slope > 0) & (low < newton) & (newton < high) & (jnp.abs(value) <= last / 2)
        refined = jnp.where(usable, newton, middle)
        finished |= (jnp.abs(value) <= tolerance) | (refined == point) | ~(low < high)
        last = jnp.where(usable, jnp.abs(value), jnp.inf)
        return low, high, jnp.where(finished, point, refined), finished, last

    point = jnp.where((low <= start) & (start <= high), start, low / 2 + high / 2)
    finished = jnp.isnan(low) | jnp.isnan(high)
    carry = (low, high, point, finished, jnp.full_like(point, jnp.inf))
    return while_loop(unfinished, refine, carry)[2]
