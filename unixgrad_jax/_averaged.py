"""Averaged steps of `minimize`: optimistic UniXGrad with cuts and restarts, for any convex f."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import optax
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._certificates import Cut, lower_bound, mix
from unixgrad_jax._evaluation import ROUNDING, Evaluate, Point
from unixgrad_jax._packed import while_loop
from unixgrad_jax._search_state import (
    CHECK_EVERY,
    Limits,
    Search,
    finish,
    give_up_if_hopeless,
    report,
    stop_if_converged,
    with_candidate,
)
from unixgrad_jax._status import Status
from unixgrad_jax._template import Average, move_towards
from unixgrad_jax._types import Array, Gradient, Mirror
from unixgrad_jax.methods import _unixgrad as method

FIRST_PATIENCE = 4
"""Iterations before a run can stall; doubled by each stall, which keeps the rate."""
STALL_FACTOR = 2.0
"""What a stall multiplies Σ by; 1, 1.4, 2 and 4 were compared."""
REJECTION_FACTOR = 16.0
"""What a rejected step multiplies Σ by: the next one is a quarter as long."""
STEEP = 30
"""How asymmetric the growth of f along a step may be; 1 for a quadratic, 10 for exp over 10."""


class Averaging(NamedTuple):
    """The method since its last restart.

    Attributes:
        step: t, the number of finished iterations.
        anchor: mirror coordinates of y_t.
        average: x̄_t.
        value: f(x̄_t).
        hint: g_t, for the next step.
        cut: the mean of the tangents at x̄_1, ..., x̄_t with the weights of the average.
        sum_squares: Σ α_i²·‖g_i − g_{i−1}‖*² over all runs, and ‖g_0‖*².
        failed: whether the last step was rejected.
    """

    step: Array
    anchor: Mirror
    average: Average
    value: Array
    hint: Gradient
    cut: Cut
    sum_squares: Array
    failed: Array


class _Carry(NamedTuple):
    """What the loops carry.

    Attributes:
        search: what is known.
        best: the best point, with its gradient.
        averaging: the method.
        patience: iterations that a run gets before it can stall.
        checked_gap: the proven gap at the last check.
    """

    search: Search
    best: Point
    averaging: Averaging
    patience: Array
    checked_gap: Array


def run(
    evaluate: Evaluate,
    search: Search,
    sum_squares: Array,
    diameter: Array,
    limits: Limits,
    callback: Callable[..., None] | None,
) -> Search:
    """Run from the best point until the search ends.

    Args:
        evaluate: the problem.
        search: what is known.
        sum_squares: Σ to begin with.
        diameter: D.
        limits: when to stop.
        callback: called at every check, or None.

    Returns:
        What is known then.
    """

    def block(carry: _Carry) -> _Carry:
        end = jnp.minimum(carry.search.num_steps + CHECK_EVERY, limits.max_steps)

        def unchecked(carry: _Carry) -> Array:
            return carry.search.running & (carry.search.num_steps < end) & ~carry.averaging.failed

        carry = while_loop(
            unchecked, lambda carry: _iterate(evaluate, carry, diameter, limits), carry
        )
        carry = lax.cond(
            carry.search.running & ~carry.averaging.failed,
            lambda carry: _with_extra_bounds(evaluate, carry, limits),
            lambda carry: carry,
            carry,
        )
        carry = _restart_if_due(evaluate, carry)
        search = finish(carry.search, ~jnp.isfinite(carry.averaging.sum_squares), Status.NONFINITE)
        search = give_up_if_hopeless(search, evaluate.rounding, limits)
        if callback is not None:
            report(search, callback)
        return carry._replace(search=search)

    best = evaluate(search.best.params)
    search = search._replace(
        num_gradients=search.num_gradients + 1, num_restarts=search.num_restarts + 1
    )
    carry = _Carry(
        search=search,
        best=best,
        averaging=_fresh(evaluate, best, sum_squares),
        patience=jnp.asarray(FIRST_PATIENCE, jnp.int32),
        checked_gap=search.gap,
    )
    return while_loop(lambda carry: carry.search.running, block, carry).search


def _fresh(evaluate: Evaluate, start: Point, sum_squares: Array) -> Averaging:
    """Return a run that begins at an evaluated point. Σ stays: it has learned (L·D)²."""
    wide = _trees.unify(start.params)
    return Averaging(
        step=jnp.zeros((), jnp.int32),
        anchor=evaluate.geometry.to_mirror(wide),
        average=Average(wide, optax.tree.zeros_like(wide)),
        value=start.value,
        hint=start.gradient,
        cut=evaluate.tangent(start),
        sum_squares=sum_squares,
        failed=jnp.zeros((), jnp.bool_),
    )


def _iterate(evaluate: Evaluate, carry: _Carry, diameter: Array, limits: Limits) -> _Carry:
    """Take one iteration, or reject it and leave the run as it was.

    x_t = argmin_{x∈K} α_t⟨g_{t−1}, x⟩ + D_R(x, y_{t−1})/η_t
    x̄_t = x̄_{t−1} + θ_t·(x_t − x̄_{t−1})                      g_t = ∇f(x̄_t)
    y_t = argmin_{y∈K} α_t⟨g_t, y⟩ + D_R(y, y_{t−1})/η_t
    """
    geometry, run = evaluate.geometry, carry.averaging
    alpha, theta, _ = method.weights(run.step, run.sum_squares.dtype)
    size = alpha * method.rate(diameter, run.sum_squares)
    reached = geometry.to_point(geometry.step(run.anchor, run.hint, size))
    average = move_towards(run.average, reached, theta)
    point = evaluate(average.value)
    anchor = geometry.step(run.anchor, point.gradient, size)
    innovation = geometry.squared_dual_norm(optax.tree.sub(point.gradient, run.hint))
    sum_squares = run.sum_squares + alpha**2 * innovation
    taken = Averaging(
        step=run.step + 1,
        anchor=anchor,
        average=average,
        value=point.value,
        hint=point.gradient,
        cut=mix(run.cut, evaluate.tangent(point), theta),
        sum_squares=sum_squares,
        failed=jnp.zeros((), jnp.bool_),
    )
    good = point.finite & jnp.isfinite(sum_squares) & ~_is_steep(run, taken, carry.search.gap)
    carry = _consider(evaluate, carry, point, good)
    search = carry.search._replace(num_steps=carry.search.num_steps + 1)
    return carry._replace(
        search=stop_if_converged(search, limits),
        averaging=optax.tree.where(good, taken, run._replace(failed=jnp.ones((), jnp.bool_))),
    )


def _is_steep(before: Averaging, after: Averaging, gap: Array) -> Array:
    """Return whether f grew far faster along a step than a smooth function does.

    A quadratic has B(x, y) = B(y, x) for B(y, x) = f(y) − f(x) − ⟨∇f(x), y − x⟩. Near a
    singularity the slope explodes before the value does; to accept that slope would put an end
    to all progress. Steps at the level of the gap, where rounding can rule, are not judged.
    """
    way = optax.tree.sub(after.average.value, before.average.value)
    rise = after.value - before.value
    ahead = rise - _trees.vdot(before.hint, way)
    back = _trees.vdot(after.hint, way) - rise
    return (back > STEEP * ahead) & (back > 10 * gap)


def _consider(evaluate: Evaluate, carry: _Carry, point: Point, good: Array) -> _Carry:
    """Count an evaluated point, and take it over where it is good and the best."""
    search = with_candidate(evaluate, carry.search, point, good)
    better = good & (point.value < carry.search.best.value)
    return carry._replace(
        search=search._replace(num_gradients=search.num_gradients + 1),
        best=optax.tree.where(better, point, carry.best),
    )


def _with_extra_bounds(evaluate: Evaluate, carry: _Carry, limits: Limits) -> _Carry:
    """Evaluate y_t, which often converges linearly, and bound f* by the mean of the cuts.

    The mean closes in on f* at the rate of the method itself, where single tangents may not: f
    may have kinks. Its rounding is that of a running mean, at worst one unit an iteration.
    """
    run = carry.averaging
    point = evaluate(evaluate.geometry.to_point(run.anchor))
    carry = _consider(evaluate, carry, point, point.finite)
    search = carry.search
    units = 1 + run.step.astype(point.value.dtype) / ROUNDING
    bound = lower_bound(evaluate.geometry, run.cut, units * evaluate.rounding)
    search = search._replace(
        lower_bound=jnp.where(bound > search.lower_bound, bound, search.lower_bound)
    )
    return carry._replace(search=stop_if_converged(search, limits))


def _restart_if_due(evaluate: Evaluate, carry: _Carry) -> _Carry:
    """Go back to the best point where the run stalls or a step was rejected."""
    search, run = carry.search, carry.averaging
    improved = search.gap < carry.checked_gap
    stalled = ~run.failed & ~improved & (run.step >= carry.patience)
    factor = jnp.where(run.failed, REJECTION_FACTOR, jnp.where(stalled, STALL_FACTOR, 1))
    sum_squares = run.sum_squares * factor.astype(run.sum_squares.dtype)
    restart = stalled | run.failed
    return carry._replace(
        search=search._replace(
            rejections=search.rejections + run.failed,
            num_restarts=search.num_restarts + restart,
        ),
        averaging=optax.tree.where(restart, _fresh(evaluate, carry.best, sum_squares), run),
        patience=jnp.where(stalled, 2 * carry.patience, carry.patience),
        checked_gap=search.gap,
    )
