"""The search of `minimize`: spectral steps, then averaged ones where those do not help."""

from collections.abc import Callable

import jax.numpy as jnp

from unixgrad_jax import _averaged, _spectral
from unixgrad_jax._evaluation import Evaluate, FirstPoint, evaluate_start
from unixgrad_jax._packed import while_loop
from unixgrad_jax._search_state import RUNNING, Limits, Search, stop_if_converged
from unixgrad_jax._status import Status
from unixgrad_jax._types import Array, Params
from unixgrad_jax.methods import _unixgrad as method


def search(
    evaluate: Evaluate,
    start: Params,
    diameter: Array,
    limits: Limits,
    callback: Callable[..., None] | None,
) -> Search:
    """Run from a feasible start until the error is proven small, or cannot be.

    Spectral steps go first. Where fifty of them do not halve the gap, averaged steps take over,
    whatever the kinks of f, and go on to the end. Turns of both would take fewer steps on an
    ill-conditioned quadratic, but how many would be a matter of the last bit: spectral steps
    magnify rounding there until, some three hundred steps on, it is as large as the path.
    """
    first = evaluate_start(evaluate, start)
    sum_squares = evaluate.geometry.squared_dual_norm(first.point.gradient)
    first_size = method.rate(diameter, sum_squares) / 2
    search = stop_if_converged(_known(first), limits)
    search = _spectral.run(evaluate, search, first.point, first_size, limits, callback)
    # At most one turn of a loop: other than `lax.cond` it costs a batch nothing where no lane
    # needs it.
    return while_loop(
        lambda search: search.running,
        lambda search: _averaged.run(evaluate, search, sum_squares, diameter, limits, callback),
        search,
    )


def _known(first: FirstPoint) -> Search:
    """Return what is known at the start."""
    gap = first.point.value - first.lower_bound
    zero = jnp.zeros((), jnp.int32)
    return Search(
        best=first.point.candidate,
        lower_bound=first.lower_bound,
        rejections=zero,
        first_gap=gap,
        quiet_gap=gap,
        quiet_since=zero,
        status=jnp.where(first.point.finite, RUNNING, Status.NONFINITE).astype(jnp.int32),
        num_steps=zero,
        num_gradients=first.num_gradients,
        num_restarts=zero,
    )
