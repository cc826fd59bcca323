"""The methods that `minimize` is compared with, in float64, and what each knew after k gradients.

All are run with one setting on all problems, that of their paper or package. A method is charged
for every gradient it takes, those of its set-up included, and in a second count for the function
values that it needs beside them (line searches); the values at which its progress is read are free.
All of them get the same certificate: every gradient g at a point y, feasible or not, proves
f* ≥ f(y) + min_{v∈K} ⟨g, v − y⟩, and the gap is the best value less the best such bound.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from _suite import Array, Problem, extrapolate
from jax import lax

import unixgrad_jax as ux

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # jaxopt says on import that it is no longer maintained
    import jaxopt


class Trace(NamedTuple):
    """One entry an iteration: what had been spent, and f and the proven gap at the best answer."""

    gradients: np.ndarray
    evaluations: np.ndarray
    value: np.ndarray
    gap: np.ndarray


class Goal(NamedTuple):
    """A run may end when its best value and its gap are both at most these."""

    value: float
    gap: float


def trace(name: str, problem: Problem, goal: Goal, budget: int) -> Trace | None:
    """Run a method of `METHODS` for at most `budget` gradients; None where it does not apply."""
    return METHODS[name](problem, goal, budget)


class Progress(NamedTuple):
    """What a run has spent, its best value, and the best lower bound of f*."""

    gradients: Array
    evaluations: Array
    value: Array
    lower: Array

    def reached(self, value: Array, evaluations: Array | int = 0) -> "Progress":
        """Return the progress with one more answer, at a cost in function values."""
        return self._replace(
            value=jnp.fmin(self.value, value), evaluations=self.evaluations + evaluations
        )


class Oracle(NamedTuple):
    """The problem as a method may see it; `smoothness`, ∞ at kinks, is for those told L."""

    objective: Callable[..., Array]
    geometry: ux.Geometry
    args: tuple[Array, ...]
    smoothness: Array

    def value(self, point: Array) -> Array:
        return self.objective(point, *self.args)

    def query(self, point: Array, progress: Progress) -> tuple[Array, Array, Progress]:
        """Return value and gradient at a point, and the progress with this gradient in it."""
        value, gradient = jax.value_and_grad(self.objective)(point, *self.args)
        lower = value - ux.frank_wolfe_gap(self.geometry, point, gradient)
        spent = progress._replace(
            gradients=progress.gradients + 1, lower=jnp.fmax(progress.lower, lower)
        )
        return value, gradient, spent


class Loop(NamedTuple):
    """A method that has been set up: its memory, its progress, and one iteration."""

    memory: Any
    progress: Progress
    advance: Callable[[Any, Progress], tuple[Any, Progress]]


Method = Callable[[Oracle, Array, Progress], Loop]


def fista(oracle: Oracle, start: Array, progress: Progress, restarts: bool) -> Loop:
    """FISTA with the step 1/L, x_k = P(y_k − ∇f(y_k)/L), see `extrapolate`. The answer is x_k."""

    def advance(memory: Any, progress: Progress) -> tuple[Any, Progress]:
        x, y, t = memory
        _, gradient, progress = oracle.query(y, progress)
        new = oracle.geometry.project(y - gradient / oracle.smoothness)
        memory = new, *extrapolate(x, y, t, new, restarts)
        return memory, progress.reached(oracle.value(new))

    return Loop((start, start, jnp.ones(())), progress, advance)


def spectral(oracle: Oracle, start: Array, progress: Progress) -> Loop:
    """SPG2, spectral projected gradients (Birgin, Martínez and Raydan, SIAM J. Optim. 2000).

        d = P(x − α∇f(x)) − x,  x⁺ = x + λd,  α⁺ = ⟨s, s⟩/⟨s, y⟩ in [1e-30, 1e30]

    with s and y the changes of x and of the gradient. λ falls from 1, by safeguarded quadratic
    interpolation, until f(x⁺) ≤ max of the last M = 10 values + 1e-4·λ⟨d, ∇f(x)⟩. The first α is
    1/‖P(x − ∇f(x)) − x‖_∞. The line search gives up after 40 values: where f has kinks there may be
    no descent along d. The answer is the best x.
    """
    least, most = 1e-30, 1e30

    def advance(memory: Any, progress: Progress) -> tuple[Any, Progress]:
        x, value, gradient, length, history = memory
        direction = oracle.geometry.project(x - length * gradient) - x
        slope = jnp.vdot(gradient, direction)

        def refused(search: tuple[Array, Array, Array]) -> Array:
            step, trial, tries = search
            return (trial > history.max() + 1e-4 * step * slope) & (tries < 40)

        def shorten(search: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            step, trial, tries = search
            vertex = -(step**2) * slope / (2 * (trial - value - step * slope))
            inside = (vertex >= 0.1) & (vertex <= 0.9 * step)
            step = jnp.where(inside, vertex, step / 2)
            return step, oracle.value(x + step * direction), tries + 1

        first = (jnp.ones(()), oracle.value(x + direction), jnp.ones((), int))
        step, _, tries = lax.while_loop(refused, shorten, first)
        new = x + step * direction
        new_value, new_gradient, progress = oracle.query(new, progress)
        s, y = new - x, new_gradient - gradient
        curvature = jnp.vdot(s, y)
        ratio = jnp.vdot(s, s) / jnp.where(curvature > 0, curvature, 1.0)
        length = jnp.where(curvature > 0, jnp.clip(ratio, least, most), most)
        history = jnp.roll(history, 1).at[0].set(new_value)
        return (new, new_value, new_gradient, length, history), progress.reached(new_value, tries)

    value, gradient, progress = oracle.query(start, progress)
    first = jnp.abs(oracle.geometry.project(start - gradient) - start).max()
    history = jnp.full(10, -jnp.inf).at[0].set(value)
    memory = (start, value, gradient, jnp.clip(1 / first, least, most), history)
    return Loop(memory, progress.reached(value), advance)


def adaptive_proximal(oracle: Oracle, start: Array, progress: Progress) -> Loop:
    """adaPG^{q,r}, q = 3/2, r = 3/4 (Latafat, Themelis and Patrinos, L4DC 2024, arXiv:2311.18431).

        x_{k+1} = P(x_k − γ_{k+1}∇f(x_k)),
        γ_{k+1} = γ_k·min(√(1/q + γ_k/γ_{k−1}),
                          √((1 − r/q)/[γ_k²L_k² + 2γ_kℓ_k(r − 1) − (2r − 1)]₊)),
        ℓ_k = ⟨Δg, Δx⟩/‖Δx‖²,  L_k = ‖Δg‖/‖Δx‖

    with Δ the last change. The first step is as in the authors' code: 1/ℓ between x_0 and
    P(x_0 − ∇f(x_0)/10), then 1/ℓ between x_0 and the point that this step leads to, at one gradient
    each. The answer is the best x.
    """
    q, r = 3 / 2, 3 / 4

    def estimates(dx: Array, dg: Array) -> tuple[Array, Array]:
        squared = jnp.vdot(dx, dx)
        squared = jnp.where(squared > 0, squared, jnp.inf)
        return jnp.vdot(dg, dx) / squared, jnp.vdot(dg, dg) / squared

    def advance(memory: Any, progress: Progress) -> tuple[Any, Progress]:
        before, old_gradient, x, old_step, step = memory
        value, gradient, progress = oracle.query(x, progress)
        curvature, squared_L = estimates(x - before, gradient - old_gradient)
        excess = step**2 * squared_L + 2 * step * curvature * (r - 1) - (2 * r - 1)
        bound = jnp.sqrt((1 - r / q) / jnp.maximum(excess, 0.0))
        new_step = step * jnp.minimum(jnp.sqrt(1 / q + step / old_step), bound)
        new = oracle.geometry.project(x - new_step * gradient)
        return (x, gradient, new, step, new_step), progress.reached(value)

    value, gradient, progress = oracle.query(start, progress)
    step = jnp.asarray(0.1)
    for growth in (10.0, jnp.sqrt(2.0)):
        near = oracle.geometry.project(start - step * gradient)
        _, other, progress = oracle.query(near, progress)
        curvature, _ = estimates(near - start, other - gradient)
        flat = curvature <= 0
        step = jnp.where(flat, growth * step, 1 / jnp.where(flat, 1.0, curvature))
    x = oracle.geometry.project(start - step * gradient)
    return Loop((start, gradient, x, step, step), progress.reached(value), advance)


def auto_conditioned(oracle: Oracle, start: Array, progress: Progress) -> Loop:
    """AC-FGM (Li and Lan, Math. Program. 2025, arXiv:2310.10082, with β = 1 − √6/3 and α = 0.1).

        z_t = P(y_{t−1} − η_t∇f(x_{t−1})),  y_t = (1 − β)y_{t−1} + βz_t,
        x_t = (z_t + τ_t·x_{t−1})/(1 + τ_t),
        L_t = ‖∇f(x_t) − ∇f(x_{t−1})‖²/(2·(f(x_{t−1}) − f(x_t) − ⟨∇f(x_t), x_{t−1} − x_t⟩)),
        η_2 = min((1 − β)η_1, 1/(4L_1)),  τ_1 = 0,  τ_2 = 1, and from t = 3 on
        η_t = min(4/3·η_{t−1}, (τ_{t−2} + 1)/τ_{t−1}·η_{t−1}, τ_{t−1}/(4L_{t−1})),
        τ_t = τ_{t−1} + α/2 + 2(1 − α)η_t·L_{t−1}/τ_{t−1}

    The first iteration is that of the authors' code: x_1 = z_1 = P(x_0 − η_1∇f(x_0)), y_1 = x_0 and
    η_1 = 2/(5L_1), where L_1 grows by half, one gradient a try, from a quarter of the curvature
    between x_0 and x_0 − 0.1·𝟙 until ‖Δg‖ ≤ L_1‖Δx‖. Its accuracy ε, which a problem with kinks
    would want to be told, is 0. The answer is the best x_t.
    """
    alpha, beta = 0.1, 1 - 6**0.5 / 3

    def advance(memory: Any, progress: Progress) -> tuple[Any, Progress]:
        x, y, value, gradient, L, step, old_tau, tau, t = memory
        second = t == 2
        by_curvature = tau / (4 * jnp.where(L > 0, L, 1.0))
        growing = jnp.minimum(4 / 3 * step, (old_tau + 1) / tau * step)
        bounded = jnp.where(second, jnp.minimum((1 - beta) * step, 1 / (4 * L)), growing)
        step = jnp.where(L > 0, jnp.minimum(bounded, by_curvature), step)
        new_tau = jnp.where(second, 1.0, tau + alpha / 2 + 2 * (1 - alpha) * step * L / tau)
        old_tau = jnp.where(second, 0.0, tau)
        z = oracle.geometry.project(y - step * gradient)
        y = (1 - beta) * y + beta * z
        new = (z + new_tau * x) / (1 + new_tau)
        new_value, new_gradient, progress = oracle.query(new, progress)
        change = new_gradient - gradient
        drop = 2 * (value - new_value - jnp.vdot(new_gradient, x - new))
        L = jnp.where(drop > 0, jnp.vdot(change, change) / jnp.where(drop > 0, drop, 1.0), 0.0)
        memory = new, y, new_value, new_gradient, L, step, old_tau, new_tau, t + 1
        return memory, progress.reached(new_value)

    def attempt(L: Array, progress: Progress) -> tuple[Any, ...]:
        x = oracle.geometry.project(start - 2 / (5 * L) * gradient)
        value_at_x, gradient_at_x, progress = oracle.query(x, progress)
        return L, x, value_at_x, gradient_at_x, progress

    def too_long(carry: tuple[Any, ...]) -> Array:
        L, x, _, gradient_at_x, progress = carry
        change = jnp.linalg.norm(gradient_at_x - gradient)
        return (change > L * jnp.linalg.norm(x - start)) & (progress.gradients < 200)

    value, gradient, progress = oracle.query(start, progress)
    _, nearby, progress = oracle.query(start - 0.1, progress)
    guess = jnp.linalg.norm(nearby - gradient) / (0.1 * jnp.sqrt(1.0 * start.size))
    guess = jnp.where(guess > 0, guess, 1.0)
    L, x, value_at_x, gradient_at_x, progress = lax.while_loop(
        too_long, lambda carry: attempt(1.5 * carry[0], carry[-1]), attempt(guess / 4, progress)
    )
    one = jnp.ones(())
    memory = (x, start, value_at_x, gradient_at_x, L, 2 / (5 * L), 0 * one, one, 2 + 0 * one)
    return Loop(memory, progress.reached(value).reached(value_at_x), advance)


def projected_gradient(oracle: Oracle, start: Array, progress: Progress) -> Loop:
    """Accelerated ProjectedGradient of jaxopt with its line search, all by default.

    An iteration takes one gradient, at the extrapolated point, and one value for every step size
    tried; how many it tried is read off the step sizes (its limit of 15 more where that fell below
    1e-6 and went back to 1).
    """
    solver = jaxopt.ProjectedGradient(
        oracle.objective, projection=lambda x, _: oracle.geometry.project(x)
    )

    def advance(memory: Any, progress: Progress) -> tuple[Any, Progress]:
        params, state = memory
        _, _, progress = oracle.query(state.velocity, progress)
        params, new = solver.update(params, state, None, *oracle.args)
        halvings = jnp.round(jnp.log2(2 * state.stepsize / new.stepsize)).astype(int)
        tries = 1 + jnp.where(halvings >= 0, halvings, 15)
        return (params, new), progress.reached(oracle.value(params), tries)

    return Loop((start, solver.init_state(start, None, *oracle.args)), progress, advance)


def _recorded(method: Method, problem: Problem, goal: Goal, budget: int) -> Trace:
    L = jnp.asarray(math.inf if problem.smoothness is None else problem.smoothness)
    rest = (problem.geometry, problem.args, L)
    length, entries = _compiled(method, budget, problem.objective, rest, problem.start, goal)
    return Trace(*(np.asarray(entry)[: int(length)] for entry in entries))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _compiled(
    method: Method,
    budget: int,
    objective: Callable[..., Array],
    rest: tuple[Any, ...],
    start: Array,
    goal: Goal,
) -> tuple[Array, tuple[Array, ...]]:
    """Return how many iterations were recorded, and `budget` + 1 entries, the rest empty."""
    zero = jnp.zeros((), int)
    empty = Progress(zero, zero, jnp.asarray(jnp.inf), jnp.asarray(-jnp.inf))
    loop = method(Oracle(objective, *rest), start, empty)

    def record(entries: tuple[Array, ...], index: Array, progress: Progress) -> tuple[Array, ...]:
        known = (*progress[:3], progress.value - progress.lower)
        return tuple(entry.at[index].set(now) for entry, now in zip(entries, known, strict=True))

    def unfinished(carry: tuple[Any, ...]) -> Array:
        _, progress, _, index = carry
        reached = (progress.value <= goal.value) & (progress.value - progress.lower <= goal.gap)
        return ~reached & (progress.gradients < budget) & (index <= budget)

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        memory, progress, entries, index = carry
        memory, progress = loop.advance(memory, progress)
        return memory, progress, record(entries, index, progress), index + 1

    blank = jnp.zeros(budget + 1)
    entries = (blank.astype(int), blank.astype(int), blank, blank)
    first = (loop.memory, loop.progress, record(entries, zero, loop.progress), zero + 1)
    _, _, entries, length = lax.while_loop(unfinished, body, first)
    return length, entries


def _told(method: Method, problem: Problem, goal: Goal, budget: int) -> Trace | None:
    """Run a method that is told L, where there is one."""
    return _recorded(method, problem, goal, budget) if problem.smooth else None


def _paper(problem: Problem, goal: Goal, budget: int, offset: float | None) -> Trace:
    """The paper's algorithm, certified at its average; it knows no reason to end early."""
    del goal

    def read(info: ux.StepInfo) -> tuple[Array, Array]:
        value = problem.value(info.average)
        return value, value - ux.frank_wolfe_gap(problem.geometry, info.average, info.gradient)

    steps = budget // 2
    run = ux.solve(
        problem.objective,
        problem.geometry,
        problem.start,
        steps,
        args=problem.args,
        offset=offset,
        trace=read,
    )
    value = np.minimum.accumulate(run.trace[0])
    gap = value - np.maximum.accumulate(run.trace[1])
    return Trace(2 * np.arange(1, steps + 1), np.zeros(steps, int), value, gap)


def _minimize(problem: Problem, goal: Goal, budget: int) -> Trace:
    """`ux.minimize`, run on to a gap that no row asks for; every point that it evaluates counts.

    The proven gap is not recorded: only a run that stops there shows what it costs.
    """
    values: list[float] = []

    def recorded(x: Array, *args: Array) -> Array:
        value = problem.objective(x, *args)
        jax.debug.callback(lambda value: values.append(float(value)), value, ordered=True)
        return value

    solution = ux.minimize(
        recorded,
        problem.geometry,
        problem.start,
        args=problem.args,
        rtol=0.0,
        atol=1e-3 * goal.gap,
        max_steps=budget,
    )
    jax.block_until_ready(solution)
    jax.effects_barrier()
    count = len(values)
    if count != int(solution.num_gradients):
        raise RuntimeError(f"{count} evaluations, but {int(solution.num_gradients)} were reported.")
    best = np.minimum.accumulate(np.asarray(values))
    return Trace(np.arange(1, count + 1), np.zeros(count, int), best, np.full(count, np.inf))


METHODS: dict[str, Callable[[Problem, Goal, int], Trace | None]] = {
    "minimize": _minimize,
    "paper": functools.partial(_paper, offset=1.0),
    "paper, offset=None": functools.partial(_paper, offset=None),
    "FISTA told L": functools.partial(_told, functools.partial(fista, restarts=False)),
    "FISTA told L, restarts": functools.partial(_told, functools.partial(fista, restarts=True)),
    "SPG": functools.partial(_recorded, spectral),
    "adaPG": functools.partial(_recorded, adaptive_proximal),
    "AC-FGM": functools.partial(_recorded, auto_conditioned),
    "jaxopt": functools.partial(_recorded, projected_gradient),
}
