"""Scaling of a positive matrix to given row and column sums, in logarithms."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax._types import Array
from unixgrad_jax.geometries._matrix import product

TOLERANCE = 16
"""The l1 error of the marginals that a scaling is accepted with, in units of ε·s."""

SWEEPS = 4
"""Sinkhorn steps that come first, without logarithms."""

RIDGE = 8
"""What is added to the unit diagonal of the Hessian, in units of ε: more than its rounding."""


def scale_to_marginals(kernel: Array, rows: Array, columns: Array) -> Array:
    """Return kernelᵢⱼ + uᵢ + vⱼ, the logarithm of a plan with these marginals of total 1.

    The rows, the longer side, are normalized exactly; v minimizes the semi-dual
    Σ rᵢ·log Σⱼ exp(kernelᵢⱼ + vⱼ) − ⟨c, v⟩. Derivatives are those of the implicit function theorem.
    """
    if kernel.shape[0] < kernel.shape[1]:
        return _scale_tall(kernel.T, columns, rows).T
    return _scale_tall(kernel, rows, columns)


@jax.custom_jvp
def _scale_tall(kernel: Array, rows: Array, columns: Array) -> Array:
    tolerance = TOLERANCE * float(jnp.finfo(kernel.dtype).eps)
    found = _minimize_semi_dual(kernel, rows, columns, tolerance)
    return found.log_plan + jnp.where(found.done & (found.error <= tolerance), 0, jnp.nan)


@_scale_tall.defjvp
def _(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """Differentiate one Newton step from the solution, with constants for the Hessian."""
    result = _scale_tall(*primals)

    def newton(kernel: Array, rows: Array, columns: Array) -> Array:
        moving = _normalize_rows(result + kernel, rows)
        _, shortage = _lacking(moving, columns)
        moving = moving + _newton_step(moving, shortage, rows, columns)
        return _normalize_rows(moving, rows)

    kernel, rows, columns = primals
    change = jnp.where(jnp.isfinite(kernel), tangents[0], 0)
    at = (jnp.zeros_like(kernel), rows, columns)
    return result, jax.jvp(newton, at, (change, *tangents[1:]))[1]


class _Iterate(NamedTuple):
    """Newton's method under way.

    Attributes:
        log_plan: kernelᵢⱼ/temperature + uᵢ + vⱼ with the row sums given; u and v are added at once,
            so that the entries that matter stay small and keep their digits.
        missing: what its column sums lack, in logarithms.
        temperature: at least 1; only at 1 is the plan that of the kernel.
        heated: whether refuge to a high temperature was taken.
        error: the l1 error of the column sums after the last Sinkhorn step.
        done: whether the column sums are right to the tolerance, or NaN; the plan is then the one
            with that error.
        iterations: how many there were.
    """

    log_plan: Array
    missing: Array
    temperature: Array
    heated: Array
    error: Array
    done: Array
    iterations: Array


def _minimize_semi_dual(kernel: Array, rows: Array, columns: Array, tolerance: float) -> _Iterate:
    """Return kernelᵢⱼ + uᵢ + vⱼ with the marginals given, up to `tolerance` in l1.

    An iteration is one Sinkhorn step and, unless an early one has left a tenth of the error or
    less, one Newton step d damped to log(1 + M)/M of its length with M = max d − min d. Both
    descend, the second since |F‴| ≤ M·F″ along d (Bach, "Self-concordant analysis for logistic
    regression", 2010). Once Newton's method proves far from the solution, the kernel is divided by
    a temperature, which falls back to 1 while M is small.
    """

    def improve(at: _Iterate) -> _Iterate:
        log_plan = _normalize_rows(at.log_plan + at.missing[None, :], rows)
        missing, shortage = _lacking(log_plan, columns)
        error = jnp.sum(jnp.abs(shortage))
        # Right to the tolerance, and to rounding: a quarter of it, or no longer getting better.
        good = (error <= tolerance) & ((error <= tolerance / 4) | (error > at.error / 2))
        done = (at.temperature == 1) & good | jnp.isnan(error)
        early = (at.temperature == 1) & (at.iterations < 8)
        kept = at._replace(
            log_plan=log_plan,
            missing=missing,
            error=error,
            done=done,
            iterations=at.iterations + 1,
        )
        enough = early & (error <= at.error / 10)
        return lax.cond(done | enough, lambda: kept, lambda: with_newton_step(kept, shortage))

    def with_newton_step(at: _Iterate, shortage: Array) -> _Iterate:
        step = _newton_step(at.log_plan, shortage, rows, columns)
        length = jnp.max(step) - jnp.min(step)
        damping = jnp.where(length > 0, jnp.log1p(length) / jnp.where(length > 0, length, 1), 1)
        near = (length <= 2) | (at.error <= tolerance)
        hottest = jnp.max(jnp.where(jnp.isfinite(cold), -cold, 0)) / 8
        far = (length > 8) & (at.error > tolerance)
        heat = far & ~at.heated & (hottest > at.temperature)
        cooler = jnp.where(near, jnp.maximum(at.temperature / 4, 1), at.temperature)
        moved = (at.log_plan + damping * step) * (at.temperature / cooler)
        log_plan = _normalize_rows(jnp.where(heat, cold / hottest, moved), rows)
        return at._replace(
            log_plan=log_plan,
            missing=_lacking(log_plan, columns)[0],
            temperature=jnp.where(heat, hottest, cooler),
            heated=at.heated | heat,
        )

    cold = _normalize_rows(kernel, rows)
    start = _Iterate(
        log_plan=cold,
        missing=_first_sweeps(cold, rows, columns),
        temperature=jnp.ones((), kernel.dtype),
        heated=jnp.zeros((), jnp.bool_),
        error=jnp.asarray(jnp.inf, kernel.dtype),
        done=jnp.zeros((), jnp.bool_),
        iterations=jnp.zeros((), jnp.int32),
    )
    return lax.while_loop(lambda at: ~at.done & (at.iterations < 300), improve, start)


def _first_sweeps(log_plan: Array, rows: Array, columns: Array) -> Array:
    """Return the change of v in a few Sinkhorn steps on the plan itself; 0 where that underflows.

    A product with a vector takes a fifth of the time of a pass of logarithms.
    """
    plan = lax.stop_gradient(jnp.exp(log_plan))
    weights = columns / jnp.sum(plan, axis=0)
    for _ in range(SWEEPS):
        weights = columns / product(rows / product(plan, weights), plan)
    usable = jnp.all((weights > 0) & jnp.isfinite(weights))
    return jnp.where(usable, jnp.log(jnp.where(usable, weights, 1)), 0)


def _lacking(log_plan: Array, columns: Array) -> tuple[Array, Array]:
    """Return what the column sums lack, as log(cⱼ/Σᵢ Pᵢⱼ) and as cⱼ − Σᵢ Pᵢⱼ.

    One pass for both; exp of the logarithm of a sum would lose digits that the error is judged by.
    """
    top = lax.stop_gradient(jnp.max(log_plan, axis=0))
    relative = jnp.sum(jnp.exp(log_plan - top[None, :]), axis=0)
    return jnp.log(columns) - (top + jnp.log(relative)), columns - jnp.exp(top) * relative


def _normalize_rows(log_plan: Array, rows: Array) -> Array:
    return log_plan + (jnp.log(rows) - jax.nn.logsumexp(log_plan, axis=1))[:, None]


def _newton_step(log_plan: Array, shortage: Array, rows: Array, columns: Array) -> Array:
    """Return the change of v that Newton's method makes, with constants for the Hessian.

    The Hessian diag(Pᵀ·1) − Pᵀ·diag(1/r)·P is a graph Laplacian. Its diagonal is summed from
    the other entries, which keeps the digits that cancel near a vertex. A ridge of the size of
    the rounding errors bounds the step, and the null vector 1 is filled in.
    """
    plan = lax.stop_gradient(jnp.exp(log_plan))
    rows, columns = lax.stop_gradient((rows, columns))
    diagonal = jnp.eye(columns.size, dtype=bool)
    weights = jnp.where(diagonal, 0, product(plan.T, plan / rows[:, None]))
    unit = jnp.sqrt(jnp.maximum(columns, jnp.sum(plan, axis=0)))
    laplacian = jnp.where(diagonal, jnp.sum(weights, axis=1)[None, :], -weights)
    outer = jnp.outer(unit, unit)
    ridge = jnp.where(diagonal, RIDGE * jnp.finfo(plan.dtype).eps, 0)
    factor = jax.scipy.linalg.cho_factor(laplacian / outer + outer + ridge)
    step = jax.scipy.linalg.cho_solve(factor, shortage / unit) / unit
    return jnp.where(jnp.all(jnp.isfinite(step)), step, 0)[None, :]
