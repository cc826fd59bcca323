"""Minimization to a proven error."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _arguments, _trees, _validation
from unixgrad_jax._evaluation import Evaluate, rounding
from unixgrad_jax._implicit import follow_solution, hoist
from unixgrad_jax._search import search
from unixgrad_jax._search_state import Limits, Search
from unixgrad_jax._types import Array, Objective, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._unixgrad import check_hyperparameters


class Solution(NamedTuple):
    """What `minimize` returns.

    Attributes:
        params: the best point that was evaluated, feasible, in the structure and dtypes of the
            start.
        value: the objective there, plus the penalty of the geometry.
        lower_bound: a proven lower bound on the optimum; −∞ if there is none.
        gap: value − lower_bound, which bounds the error of `value`.
        status: a `Status`, int32.
        num_steps: iterations, rejected ones included.
        num_gradients: evaluations of the objective with its gradient.
        num_restarts: how often averaged steps began, or began again, at the best point.
        aux: what the objective returned beside its value at `params`; None without `has_aux`.
    """

    params: Params
    value: Array
    lower_bound: Array
    gap: Array
    status: Array
    num_steps: Array
    num_gradients: Array
    num_restarts: Array
    aux: Any


def minimize(
    objective: Objective,
    geometry: Geometry,
    params: Params | None = None,
    *,
    args: tuple = (),
    rtol: Scalar = 1e-4,
    atol: Scalar = 0.0,
    max_steps: int = 10_000,
    has_aux: bool = False,
    diameter: Scalar | None = None,
    callback: Callable[[Array, Array, Array], None] | None = None,
) -> Solution:
    """Minimize a convex objective over a set until the error is proven to be small.

    Stops at gap = value − lower_bound ≤ atol + rtol·max(|value|, |lower_bound|), or where the gap
    is negative by more than that: a bound above an attained value disproves convexity. Needs
    exact gradients and a set with a linear minimization oracle, and nothing to tune.

    Steps of two kinds take one gradient each. Spectral steps go first: projected (mirror) gradients
    of length ‖s‖²/⟨s, y⟩, s and y the last changes of x and of the gradient (Barzilai and Borwein,
    IMA J. Numer. Anal. 1988; Birgin, Martínez and Raydan, SIAM J. Optim. 2000), for an entropy with
    the divergence there and back in place of ‖s‖²; rounded to quarters of a factor of two so that
    the path does not hang on the last bit for some hundreds of steps. They may go up, but not above
    a reference value that comes down after ten steps without a better point (Dai and Fletcher,
    Numer. Math. 2005). Where fifty of them do not halve the gap, averaged steps take over and go on
    to the end: UniXGrad with the last gradient as the hint, M_t = g_{t−1} (optimism and iterate
    averaging: Joulani, Raj, György and Szepesvári, ICML 2020), with offset ‖∇f(x_0)‖*². These begin
    at the best point and evaluate y_t as well every 5 iterations; they begin again, with twice
    Σα_i²‖g_i − g_{i−1}‖*², where five iterations brought nothing, and each such restart doubles the
    iterations before the next. The steps on c·f are those on f.

    What is proven: the gap, always, for a convex objective; and between restarts of averaged steps
    rates of the order of UniXGrad's (theirs), 1/T² where f is smooth and 1/√T where not, for the
    mean of the cuts f(x̄_i) + ⟨g_i, · − x̄_i⟩ too, which bounds the optimum from below beside the
    single ones: the proof of a rate bounds f(x̄_T) − min_K of that mean. So the gap closes at these
    rates also where f has kinks; spectral steps add at most fifty for every half. What is
    measured: on smooth problems it takes half the gradients of FISTA that is told L, nearly all of
    them spectral steps.

    Rounding: the value and the gradient are taken to be right to 8 units of rounding of their
    dtype, each entry relative to itself, and cuts to 8 units of the terms that they sum up (a
    mean of t cuts to 8 + t); `lower_bound` is lowered by as much. An objective that cancels more
    than that inside needs a wider dtype. Where this keeps the gap above the tolerance the status
    is PRECISION_LIMIT, soon after the gap stops falling.

    A step to a point where value or gradient are not finite, or the gradient explodes as at a
    singularity, is rejected and the next one is shorter. A start where the objective is
    singular is moved towards the interior point.

    The solution is differentiable in `args`, the geometry and what the functions close over,
    forward and reverse, by the implicit function theorem at the fixed point x = step(x, ∇f(x)): as
    accurate as the solution, where that is unique and the constraints that hold it are not just
    touched. The derivative of `value` follows; bounds and counts have none. Under `jax.vmap` each
    lane stops on its own and stays as it is, bit for bit, until all have stopped.

    Args:
        objective: `objective(params, *args)`, convex in params; returns a scalar, or with
            `has_aux` a pair of a scalar and a pytree of arrays. Compiled once, like all of this,
            for the same functions and shapes.
        geometry: the constraint set and its mirror map.
        params: the start, projected if it is outside the set; by default, or as a pytree of
            `jax.ShapeDtypeStruct`, the geometry's interior point.
        args: further arguments of the objective, pytrees of arrays.
        rtol: the relative tolerance, ≥ 0.
        atol: the absolute tolerance, in units of the objective, ≥ 0.
        max_steps: the most iterations, ≥ 1. One takes one gradient; of averaged ones every fifth
            takes a second.
        has_aux: whether the objective returns more than its value.
        diameter: D = √(sup D_R) ≥ 0, a scalar, which for R = ½‖·‖₂² is the largest distance
            over √2; by default `geometry.diameter(params)`.
        callback: `callback(step, value, gap)` is called with arrays on the host every 5 steps,
            under vmap once a lane; see `progress_bar`.

    Returns:
        A `Solution`. Compare its `status` with `Status.CONVERGED`.

    Raises:
        TypeError: if a function is not callable, or params are complex.
        ValueError: if an argument is out of range, the set has no linear minimization oracle, it
            is unbounded and no diameter is given, or the start is None and the geometry does not
            know its shape.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> def objective(x, target):
        ...     return jnp.sum((x - target) ** 2)
        >>> target = jnp.array([3.0, 4.0])
        >>> solution = ux.minimize(objective, ux.L2Ball(1.0), jnp.zeros(2), args=(target,))
        >>> solution.params.round(3), ux.Status(int(solution.status)).name
        (Array([0.6, 0.8], dtype=float32), 'CONVERGED')
        >>> bool(solution.value - 16 <= solution.gap)  # the error is within the proven gap
        True
    """
    check_hyperparameters(geometry, diameter, offset=None)
    _validation.check_counts(max_steps=max_steps)
    _arguments.check_args(args)
    _validation.check_number("rtol", rtol)
    _validation.check_number("atol", atol)
    start = _arguments.start(geometry, params, oracle=True)
    return _run(
        _arguments.as_pytree("objective", objective),
        geometry,
        start,
        args,
        geometry.diameter(start) if diameter is None else diameter,
        Limits(rtol, atol, max_steps),
        None if callback is None else _arguments.as_pytree("callback", callback),
        has_aux=bool(has_aux),
    )


@functools.partial(jax.jit, static_argnames=("has_aux",))
def _run(
    objective: Objective,
    geometry: Geometry,
    start: Params,
    args: tuple,
    diameter: Scalar,
    limits: Limits,
    callback: Callable[..., None] | None,
    *,
    has_aux: bool,
) -> Solution:
    dtype = _trees.wide_dtype(start)
    diameter = _trees.scalar("diameter", diameter, dtype)
    limits = Limits(
        _trees.scalar("rtol", limits.rtol, dtype),
        _trees.scalar("atol", limits.atol, dtype),
        jnp.asarray(limits.max_steps, jnp.int32),
    )
    data = objective, geometry, args

    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), start)

    allowed = rounding(objective, like, args, has_aux)

    def problem(data: tuple[Objective, Geometry, tuple]) -> Evaluate:
        objective, geometry, args = data
        return Evaluate(objective, args, has_aux, geometry, like, allowed)

    def run(data: tuple, start: Params, diameter: Array, limits: Limits) -> Search:
        evaluate = problem(data)
        feasible = evaluate.geometry.project(_trees.unify(start))
        return search(evaluate, feasible, diameter, limits, callback)

    given = data, start, diameter, limits
    # What the functions close over is data too: no derivative goes through the search.
    hoisted, closed_over = hoist(run, *given)
    found = hoisted(*lax.stop_gradient((closed_over, *given)))
    best = follow_solution(problem, data, found.best, lax.stop_gradient(diameter))
    return Solution(
        params=best.params,
        value=best.value,
        lower_bound=found.lower_bound,
        gap=found.gap,
        status=found.status,
        num_steps=found.num_steps,
        num_gradients=found.num_gradients,
        num_restarts=found.num_restarts,
        aux=best.aux,
    )
