"""The compiled loop of `minimize`: optimistic UniXGrad with cuts, candidates and restarts."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._certificates import lower_bound, mix
from unixgrad_jax._evaluation import ROUNDING, Evaluate, evaluate_start
from unixgrad_jax._search_state import (
    Limits,
    Run,
    Search,
    finish,
    fresh_run,
    stop_if_converged,
    with_candidate,
)
from unixgrad_jax._status import RUNNING, Status
from unixgrad_jax._template import prox_then_average
from unixgrad_jax._types import Array, Params
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods import _unixgrad as method

CHECK_EVERY = 5
"""Iterations between two checks. 3, 5, 6, 8 and 12 were compared on the table of problems."""
RESTART_FACTOR = 0.1
"""The proven gap, relative to the one at the last restart, that calls for a new one."""
STALL_FACTOR = 2.0
"""What a stall multiplies Σ by; 1, 1.4, 2 and 4 were compared."""
FIRST_PATIENCE = 4
"""Iterations that a run gets before it can stall; doubled by each stall, which keeps the rate."""
REJECTION_FACTOR = 16.0
"""What a rejected step multiplies Σ by: the next one is a quarter as long."""
MAX_REJECTIONS = 20
"""In a row, without a better point: steps are then 10⁻¹² of what they were."""
QUIET_STEPS = 100
"""Iterations without a tenth of progress in the gap, near rounding, that end the search."""
NEAR_ROUNDING = 30
"""How many times the rounding of f(x_0) − f* a gap is still near it."""
STEEP = 30
"""How asymmetric the growth of f along a step may be; 1 for a quadratic, 10 for exp over 10."""


def search(
    evaluate: Evaluate,
    start: Params,
    diameter: Array,
    limits: Limits,
    callback: Callable[..., None] | None,
) -> Search:
    """Run the method from a feasible start until the error is proven small, or cannot be."""

    def running(search: Search) -> Array:
        return search.status == RUNNING

    def block(search: Search) -> Search:
        end = jnp.minimum(search.num_steps + CHECK_EVERY, limits.max_steps)

        def unchecked(search: Search) -> Array:
            return running(search) & (search.num_steps < end) & ~search.run.failed

        search = lax.while_loop(
            unchecked, lambda search: iterate(evaluate, search, diameter, limits), search
        )
        search = lax.cond(
            running(search),
            lambda search: check(evaluate, search, limits),
            lambda search: search,
            search,
        )
        if callback is not None:
            jax.debug.callback(callback, search.num_steps, search.best.value, search.gap)
        return search

    return lax.while_loop(running, block, begin(evaluate, start, limits))


def begin(evaluate: Evaluate, start: Params, limits: Limits) -> Search:
    """Evaluate the start, moved inwards where the objective is singular on the boundary."""
    geometry = evaluate.geometry
    first, bound, num_gradients = evaluate_start(evaluate, start)
    gap = first.value - bound
    zero = jnp.zeros((), jnp.int32)
    search = Search(
        run=fresh_run(geometry, first, geometry.squared_dual_norm(first.gradient)),
        best=first,
        lower_bound=bound,
        gap_at_restart=gap,
        checked_value=first.value,
        patience=jnp.asarray(FIRST_PATIENCE, jnp.int32),
        rejections=zero,
        first_gap=gap,
        quiet_gap=gap,
        quiet_since=zero,
        status=jnp.where(first.finite, RUNNING, Status.NONFINITE).astype(jnp.int32),
        num_steps=zero,
        num_gradients=num_gradients,
        num_restarts=zero,
    )
    return stop_if_converged(search, limits)


def iterate(evaluate: Evaluate, search: Search, diameter: Array, limits: Limits) -> Search:
    """Take one iteration, or reject it and leave the run as it was.

    x_t = argmin_{x∈K} α_t⟨g_{t−1}, x⟩ + D_R(x, y_{t−1})/η_t
    x̄_t = x̄_{t−1} + θ_t·(x_t − x̄_{t−1})                      g_t = ∇f(x̄_t)
    y_t = argmin_{y∈K} α_t⟨g_t, y⟩ + D_R(y, y_{t−1})/η_t
    """
    geometry, run = evaluate.geometry, search.run
    alpha, theta, _ = method.weights(run.step, run.sum_squares.dtype)
    size = alpha * method.rate(diameter, run.sum_squares)
    _, _, average = prox_then_average(geometry, run.anchor, run.hint, size, run.average, theta)
    point = evaluate(average.value)
    anchor = geometry.step(run.anchor, point.gradient, size)
    innovation = geometry.squared_dual_norm(optax.tree.sub(point.gradient, run.hint))
    sum_squares = run.sum_squares + alpha**2 * innovation
    taken = Run(
        step=run.step + 1,
        anchor=anchor,
        average=average,
        value=point.value,
        hint=point.gradient,
        cut=mix(run.cut, point.cut, theta),
        sum_squares=sum_squares,
        failed=jnp.zeros((), jnp.bool_),
    )
    good = point.finite & jnp.isfinite(sum_squares) & ~_is_steep(run, taken, search.gap)
    new = with_candidate(geometry, search, point, good)._replace(
        run=optax.tree.where(good, taken, run._replace(failed=jnp.ones((), jnp.bool_))),
        num_steps=search.num_steps + 1,
        num_gradients=search.num_gradients + 1,
    )
    return stop_if_converged(new, limits)


def _is_steep(before: Run, after: Run, gap: Array) -> Array:
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


def check(evaluate: Evaluate, search: Search, limits: Limits) -> Search:
    """Try y_t, use the mean of the cuts, and decide whether to restart or to give up."""
    search = lax.cond(
        search.run.failed,
        lambda search: search,
        lambda search: stop_if_converged(_with_extra_bounds(evaluate, search), limits),
        search,
    )
    search = _restart_if_due(evaluate.geometry, search)
    search = _give_up_near_rounding(search)
    return finish(search, search.num_steps >= limits.max_steps, Status.MAX_STEPS)


def _with_extra_bounds(evaluate: Evaluate, search: Search) -> Search:
    """Evaluate y_t, which often converges linearly, and bound f* by the mean of the cuts.

    The mean closes in on f* at the rate of the method itself, where single tangents may not: f
    may have kinks. Its rounding is that of a running mean, at worst one unit an iteration.
    """
    geometry, run = evaluate.geometry, search.run
    point = evaluate(geometry.to_point(run.anchor))
    tried = with_candidate(geometry, search, point, point.finite)
    units = 1 + run.step.astype(point.value.dtype) / ROUNDING
    bound = lower_bound(geometry, run.cut, units * search.best.rounding)
    return tried._replace(
        lower_bound=jnp.where(bound > tried.lower_bound, bound, tried.lower_bound),
        num_gradients=search.num_gradients + 1,
    )


def _restart_if_due(geometry: Geometry, search: Search) -> Search:
    """Go back to the best point where the gap has fallen, the run stalls or a step was rejected."""
    run, running = search.run, search.status == RUNNING
    fallen = running & ~run.failed & (search.gap <= RESTART_FACTOR * search.gap_at_restart)
    improved = search.best.value < search.checked_value
    stalled = running & ~run.failed & ~fallen & ~improved & (run.step >= search.patience)
    rejected = running & run.failed
    factor = jnp.where(rejected, REJECTION_FACTOR, jnp.where(stalled, STALL_FACTOR, 1))
    sum_squares = run.sum_squares * factor.astype(run.sum_squares.dtype)
    rejections = search.rejections + rejected
    restart = fallen | stalled | rejected
    search = search._replace(
        run=optax.tree.where(restart, fresh_run(geometry, search.best, sum_squares), run),
        gap_at_restart=jnp.where(fallen, search.gap, search.gap_at_restart),
        checked_value=search.best.value,
        patience=jnp.where(stalled, 2 * search.patience, search.patience),
        rejections=rejections,
        num_restarts=search.num_restarts + restart,
    )
    hopeless = (rejections > MAX_REJECTIONS) | ~jnp.isfinite(sum_squares)
    return finish(search, hopeless, Status.NONFINITE)


def _give_up_near_rounding(search: Search) -> Search:
    """Stop where the gap is small enough to be rounding, and no longer falls."""
    progress = search.gap < 0.9 * search.quiet_gap
    quiet_since = jnp.where(progress, search.num_steps, search.quiet_since)
    search = search._replace(
        quiet_gap=jnp.where(progress, search.gap, search.quiet_gap), quiet_since=quiet_since
    )
    scale = jnp.abs(search.best.value) + search.first_gap
    near = search.gap <= NEAR_ROUNDING * search.best.rounding * scale
    quiet = search.num_steps - quiet_since >= jnp.maximum(QUIET_STEPS, quiet_since // 2)
    return finish(search, near & quiet, Status.PRECISION_LIMIT)
