"""The compiled loop of `minimize`: spectral steps, and averaged ones where those do not help."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from unixgrad_jax import _averaged, _spectral
from unixgrad_jax._evaluation import Evaluate, evaluate_start
from unixgrad_jax._packed import while_loop
from unixgrad_jax._search_state import (
    MAX_REJECTIONS,
    RUNNING,
    Limits,
    Search,
    give_up_if_hopeless,
    stop_if_converged,
    with_candidate,
)
from unixgrad_jax._status import Status
from unixgrad_jax._types import Array, Params
from unixgrad_jax.methods import _unixgrad as method

TURN = 100
"""Spectral steps that have to bring progress."""
PROGRESS = 0.1
"""The proven gap, relative to the one before a turn, that is progress."""
CALLBACK_EVERY = 5
"""Spectral steps between two callbacks, where there is one; averaged ones have as many."""
FIRST_PATIENCE = 4
"""Averaged steps before a run can stall; doubled by each stall, which keeps the rate."""


def search(
    evaluate: Evaluate,
    start: Params,
    diameter: Array,
    limits: Limits,
    callback: Callable[..., None] | None,
) -> Search:
    """Run from a feasible start until the error is proven small, or cannot be.

    Spectral steps go first. Where a hundred of them do not bring the gap down to a tenth,
    averaged steps take over until it is, whatever the kinks of f; then the spectral ones try again.
    """

    def running(search: Search) -> Array:
        return search.status == RUNNING

    def averaged_turn(search: Search, goal: Array) -> Search:
        search, best = _averaged.take_turn(evaluate, search, goal, diameter, limits, callback)
        return search._replace(spectral=_spectral.move_to(evaluate.geometry, search.spectral, best))

    def turns(search: Search) -> Search:
        goal = PROGRESS * search.gap
        search = _spectral_turn(evaluate, search, limits, callback)
        # A loop of at most one turn: other than `lax.cond` it costs a batch nothing where no lane
        # needs it.
        due = running(search) & ~(search.gap < goal)
        search, _ = while_loop(
            lambda state: state[1],
            lambda state: (averaged_turn(state[0], goal), jnp.zeros((), jnp.bool_)),
            (search, due),
        )
        return search

    return while_loop(running, turns, _begin(evaluate, start, diameter, limits))


def _begin(evaluate: Evaluate, start: Params, diameter: Array, limits: Limits) -> Search:
    """Evaluate the start, moved inwards where the objective is singular on the boundary."""
    geometry = evaluate.geometry
    first, bound, num_gradients = evaluate_start(evaluate, start)
    gap = first.value - bound
    zero = jnp.zeros((), jnp.int32)
    sum_squares = geometry.squared_dual_norm(first.gradient)
    search = Search(
        spectral=_spectral.begin(geometry, first, method.rate(diameter, sum_squares) / 2),
        best=first.candidate,
        lower_bound=bound,
        sum_squares=sum_squares,
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


def _spectral_turn(
    evaluate: Evaluate, search: Search, limits: Limits, callback: Callable[..., None] | None
) -> Search:
    """Take up to a hundred spectral steps."""

    def steps(search: Search, most: int | Array) -> Search:
        end = jnp.minimum(search.num_steps + most, limits.max_steps)

        def unfinished(search: Search) -> Array:
            hopeful = search.rejections <= MAX_REJECTIONS
            return (search.status == RUNNING) & (search.num_steps < end) & hopeful

        moved = while_loop(unfinished, lambda search: _descend(evaluate, search, limits), search)
        taken = moved.num_steps - search.num_steps
        moved = moved._replace(num_gradients=moved.num_gradients + taken)
        return give_up_if_hopeless(moved, evaluate.rounding, limits)

    if callback is None:
        return steps(search, TURN)
    end = search.num_steps + TURN

    def reported(search: Search) -> Search:
        search = steps(search, jnp.minimum(CALLBACK_EVERY, end - search.num_steps))
        jax.debug.callback(callback, search.num_steps, search.best.value, search.gap)
        return search

    return while_loop(
        lambda search: (search.status == RUNNING) & (search.num_steps < end), reported, search
    )


def _descend(evaluate: Evaluate, search: Search, limits: Limits) -> Search:
    """Take one spectral step."""
    spectral, point, good = _spectral.advance(evaluate, search.spectral, search.best.value)
    search = with_candidate(evaluate, search, point, good)
    search = search._replace(
        spectral=spectral,
        rejections=search.rejections + ~good,
        num_steps=search.num_steps + 1,
    )
    return stop_if_converged(search, limits)
