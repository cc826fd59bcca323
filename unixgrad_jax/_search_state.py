"""What the loops of `minimize` carry, and the steps of their bookkeeping."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from unixgrad_jax._evaluation import Candidate, Evaluate, Point
from unixgrad_jax._status import RUNNING, Status
from unixgrad_jax._types import Array, Scalar

MAX_REJECTIONS = 20
"""In a row, without a better point: steps are then at most 10⁻¹² of what they were."""
CHECK_EVERY = 5
"""Iterations between two callbacks, and between two checks of averaged steps: 3, 5, 6, 8 and 12
were compared there on the table of problems."""
QUIET_STEPS = 100
"""Iterations without a tenth of progress in the gap, near rounding, that end the search."""
NEAR_ROUNDING = 30
"""How many times the rounding of f(x_0) − f* a gap is still near it."""


class Search(NamedTuple):
    """What is known.

    Attributes:
        best: the evaluated point of least value.
        lower_bound: the best proven lower bound on the optimum.
        rejections: steps since the last better point that met no finite value or a singularity.
        first_gap: best value − lower bound at the start.
        quiet_gap, quiet_since: the last gap that was a tenth better than the one before, and when.
        status: a `Status`, or RUNNING.
        num_steps, num_gradients, num_restarts: counters.
    """

    best: Candidate
    lower_bound: Array
    rejections: Array
    first_gap: Array
    quiet_gap: Array
    quiet_since: Array
    status: Array
    num_steps: Array
    num_gradients: Array
    num_restarts: Array

    @property
    def gap(self) -> Array:
        return self.best.value - self.lower_bound

    @property
    def running(self) -> Array:
        return self.status == RUNNING


class Limits(NamedTuple):
    """When to stop: scalars, as the user gave them."""

    rtol: Scalar
    atol: Scalar
    max_steps: Scalar


def with_candidate(evaluate: Evaluate, search: Search, point: Point, good: Array) -> Search:
    """Take over a good point if it is the best, and its lower bound if that is the best."""
    bound = evaluate.lower_bound(point)
    better = good & (point.value < search.best.value)
    return search._replace(
        best=optax.tree.where(better, point.candidate, search.best),
        lower_bound=jnp.where(good & (bound > search.lower_bound), bound, search.lower_bound),
        rejections=jnp.where(better, 0, search.rejections),
    )


def stop_if_converged(search: Search, limits: Limits) -> Search:
    """Stop where the proven gap is within the tolerance, or so negative that nothing is proven."""
    size = jnp.maximum(jnp.abs(search.best.value), jnp.abs(search.lower_bound))
    tolerance = limits.atol + limits.rtol * size
    known = jnp.isfinite(search.gap)
    converged = known & (jnp.abs(search.gap) <= tolerance)
    search = finish(search, converged, Status.CONVERGED)
    return finish(search, known & (search.gap < -tolerance), Status.PRECISION_LIMIT)


def finish(search: Search, ended: Array, status: Status) -> Search:
    now = search.running & ended
    return search._replace(status=jnp.where(now, jnp.int32(status), search.status))


def report(search: Search, callback: Callable[..., None]) -> None:
    """Call back on the host with the iterations, the best value and the proven gap."""
    jax.debug.callback(callback, search.num_steps, search.best.value, search.gap)


def give_up_if_hopeless(search: Search, rounding: float, limits: Limits) -> Search:
    """Stop where no step is sound, rounding rules, or the iterations have run out."""
    search = finish(search, search.rejections > MAX_REJECTIONS, Status.NONFINITE)
    progress = search.gap < 0.9 * search.quiet_gap
    quiet_since = jnp.where(progress, search.num_steps, search.quiet_since)
    search = search._replace(
        quiet_gap=jnp.where(progress, search.gap, search.quiet_gap), quiet_since=quiet_since
    )
    scale = jnp.abs(search.best.value) + search.first_gap
    near = search.gap <= NEAR_ROUNDING * rounding * scale
    quiet = search.num_steps - quiet_since >= jnp.maximum(QUIET_STEPS, quiet_since // 2)
    search = finish(search, near & quiet, Status.PRECISION_LIMIT)
    return finish(search, search.num_steps >= limits.max_steps, Status.MAX_STEPS)
