"""What the loop of `minimize` carries, and the steps of its bookkeeping."""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax import _trees
from unixgrad_jax._certificates import Cut, lower_bound
from unixgrad_jax._evaluation import Point
from unixgrad_jax._status import RUNNING, Status
from unixgrad_jax._template import Average
from unixgrad_jax._types import Array, Gradient, Mirror, Scalar
from unixgrad_jax.geometries import Geometry


class Run(NamedTuple):
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


class Search(NamedTuple):
    """What the loop carries.

    Attributes:
        run: the method since its last restart.
        best: the evaluated point of least value.
        lower_bound: the best proven lower bound on the optimum.
        gap_at_restart: best value − lower bound when the run began.
        checked_value: the best value at the last check.
        patience: iterations that a run gets before it can stall.
        rejections: rejected steps since the last better point.
        first_gap: best value − lower bound at the start.
        quiet_gap, quiet_since: the last gap that was a tenth better than the one before, and when.
        status: a `Status`, or RUNNING.
        num_steps, num_gradients, num_restarts: counters.
    """

    run: Run
    best: Point
    lower_bound: Array
    gap_at_restart: Array
    checked_value: Array
    patience: Array
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


class Limits(NamedTuple):
    """When to stop: scalars, as the user gave them."""

    rtol: Scalar
    atol: Scalar
    max_steps: Scalar


def fresh_run(geometry: Geometry, start: Point, sum_squares: Array) -> Run:
    """Return a run that begins at an evaluated point. Σ stays: it has learned (L·D)²."""
    wide = _trees.unify(start.params)
    return Run(
        step=jnp.zeros((), jnp.int32),
        anchor=geometry.to_mirror(wide),
        average=Average(wide, optax.tree.zeros_like(wide)),
        value=start.value,
        hint=start.gradient,
        cut=start.cut,
        sum_squares=sum_squares,
        failed=jnp.zeros((), jnp.bool_),
    )


def with_candidate(geometry: Geometry, search: Search, point: Point, good: Array) -> Search:
    """Take over a good point if it is the best, and its lower bound if that is the best."""
    bound = lower_bound(geometry, point.cut, point.rounding)
    better = good & (point.value < search.best.value)
    return search._replace(
        best=optax.tree.where(better, point, search.best),
        lower_bound=jnp.where(good & (bound > search.lower_bound), bound, search.lower_bound),
        rejections=jnp.where(better, 0, search.rejections),
    )


def stop_if_converged(search: Search, limits: Limits) -> Search:
    """Stop where the proven gap is within the tolerance."""
    gap = search.gap
    size = jnp.maximum(jnp.abs(search.best.value), jnp.abs(search.lower_bound))
    converged = jnp.isfinite(gap) & (gap <= limits.atol + limits.rtol * size)
    return finish(search, converged, Status.CONVERGED)


def finish(search: Search, ended: Array, status: Status) -> Search:
    now = (search.status == RUNNING) & ended
    return search._replace(status=jnp.where(now, jnp.int32(status), search.status))
