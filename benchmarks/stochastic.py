"""Minibatch gradients: every method of the library untuned, beside projected SGD with a tuned step.

Run: python benchmarks/stochastic.py [--problems NAME ...] [--methods NAME ...] [--steps N]
         [--seeds N] [--output FILE.json]

All runs are float32 and get the same number of gradients, each on a fresh minibatch. An error is
f − f* at the method's answer, in units of f(x_0) − f*, with f on all data and f* from `minimize` in
float64; tables show the median over seeds.

Told nothing: UniXGrad, universal Mirror-Prox, AcceleGrad, AdaGrad-norm. The others need a number,
and get the one of the textbook, for the L of f on all data: see `METHODS`. The baseline is plain
projected SGD with averaging whose step size, constant or c/√t, is the best of a grid, chosen by the
same median that is then reported: the least that tuning could reach.
"""

import argparse
import json
import pathlib
import statistics
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _suite import least_squares, logistic
from _timing import show
from jax import lax

import unixgrad_jax as ux

Array = jax.Array
BATCH_SIZE = 5
CONSTANTS = 10.0 ** np.arange(-3, 1.5, 0.5)
"""The c of the grid; step sizes are c and c/√t."""
PROOF = 1e-7
"""How closely f* is known, in units of f(x_0) − f*."""
BASELINE = "tuned SGD"


class Problem(NamedTuple):
    """Minimize the mean of a loss over rows; everything is float64 until a run casts it.

    Attributes:
        objective: of a point and of rows, all of them or a minibatch.
        geometry: a Euclidean set.
        start: x_0, one array.
        rows: arrays that share their leading axis.
        smoothness: L, a Lipschitz constant of the gradient of the mean over all rows.
    """

    objective: Callable[..., Array]
    geometry: ux.Geometry
    start: Array
    rows: tuple[Array, ...]
    smoothness: float

    def value(self, point: Array) -> Array:
        """Return the mean over all rows."""
        return self.objective(point, *self.rows)


class Task(NamedTuple):
    """A problem in float32, as the methods see it."""

    problem: Problem
    start: Array
    sampler: Callable[[Array], tuple[Array, ...]]
    steps: int

    def batch_loss(self, point: Array, batch: tuple[Array, ...]) -> Array:
        """Return the mean over a minibatch."""
        return self.problem.objective(point, *batch)


def hinge(w: Array, features: Array, labels: Array) -> Array:
    """Return the paper's objective on the 683 samples: squared hinge losses and ‖w‖²/(2·683)."""
    losses = jnp.maximum(0, 1 - labels * (features @ w)) ** 2
    return jnp.mean(losses) + jnp.vdot(w, w) / (2 * 683)


def log_wealth(x: Array, returns: Array) -> Array:
    return -jnp.mean(jnp.log(returns @ x))


def _largest_eigenvalue(A: Array) -> float:
    """Return λ_max(AᵀA)/n."""
    return float(jnp.linalg.norm(A, ord=2)) ** 2 / A.shape[0]


def _ball() -> Problem:
    A_key, truth_key, noise_key = jax.random.split(jax.random.key(0), 3)
    A = jax.random.normal(A_key, (1000, 50)) * jnp.logspace(0, -1, 50)
    truth = jax.random.normal(truth_key, (50,))
    b = A @ truth + 0.5 * jax.random.normal(noise_key, (1000,))
    ball = ux.L2Ball(0.8 * float(jnp.linalg.norm(truth)))
    return Problem(least_squares, ball, jnp.zeros(50), (A, b), _largest_eigenvalue(A))


def _svm() -> Problem:
    features, labels = (jnp.asarray(part) for part in ux.datasets.breast_cancer())
    L = 2 * _largest_eigenvalue(features) + 1 / labels.size
    start = jnp.zeros(features.shape[1])
    return Problem(hinge, ux.L2Ball(1.0), start, (features, labels), L)


def _logistic() -> Problem:
    A_key, truth_key, noise_key = jax.random.split(jax.random.key(1), 3)
    A = jax.random.normal(A_key, (1000, 100))
    truth = jnp.zeros(100).at[:10].set(jax.random.normal(truth_key, (10,)))
    labels = jnp.sign(A @ truth + 0.5 * jax.random.normal(noise_key, (1000,)))
    L = _largest_eigenvalue(A) / 4
    return Problem(logistic, ux.L1Ball(5.0), jnp.zeros(100), (A, labels), L)


def _portfolio() -> Problem:
    """Return 1,000 periods of 30 log-normal assets that move with 5 factors."""
    factor_key, loading_key, own_key = jax.random.split(jax.random.key(2), 3)
    factors = jax.random.normal(factor_key, (1000, 5))
    logs = 0.1 * factors @ jax.random.normal(loading_key, (5, 30))
    returns = jnp.exp(logs + 0.1 * jax.random.normal(own_key, (1000, 30)))
    # On the simplex only differences of assets count: the Hessian is Σ rrᵀ/(n⟨r, x⟩²), r centered.
    centered = returns - returns.mean(axis=1, keepdims=True)
    L = _largest_eigenvalue(centered / returns.min(axis=1, keepdims=True))
    return Problem(log_wealth, ux.Simplex(), jnp.full(30, 1 / 30), (returns,), L)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "least squares, ball": _ball,
    "SVM, ball": _svm,
    "logistic, l1 ball": _logistic,
    "portfolio, simplex": _portfolio,
}


def optimum(problem: Problem) -> float:
    """Return f*, proven to a small part of f(x_0) − f*."""
    solution = ux.minimize(
        problem.objective,
        problem.geometry,
        problem.start,
        args=problem.rows,
        rtol=0.0,
        atol=PROOF * 1e-1 * jnp.abs(problem.value(problem.start)),
        max_steps=100_000,
    )
    scale = float(problem.value(problem.start) - solution.value)
    if not float(solution.gap) <= PROOF * scale:
        raise RuntimeError(f"The optimum is only known to {float(solution.gap) / scale:.1e}.")
    return float(solution.value)


def _falling(count: Array) -> Array:
    """Return 0.1/√t for gradient t = count + 1."""
    return 0.1 / jnp.sqrt(count + 1.0)


Method = tuple[str, Callable[[Problem], optax.GradientTransformation]]
METHODS: dict[str, Method] = {
    "UniXGrad, offset=1": ("", lambda p: ux.unixgrad(p.geometry)),
    "UniXGrad, offset=None": ("", lambda p: ux.unixgrad(p.geometry, offset=None)),
    "universal Mirror-Prox": ("", lambda p: ux.universal_mirror_prox(p.geometry)),
    "AcceleGrad": ("", lambda p: ux.accelegrad(p.geometry)),
    "AdaGrad-norm, average": ("", lambda p: ux.adagrad_norm(p.geometry)),
    "AdaGrad-norm, last": ("", lambda p: ux.adagrad_norm(p.geometry, average=False)),
    "Mirror-Prox": ("1/L", lambda p: ux.mirror_prox(p.geometry, 1 / p.smoothness)),
    "optimistic descent": (
        "1/(2L)",
        lambda p: ux.optimistic_mirror_descent(p.geometry, 1 / (2 * p.smoothness)),
    ),
    "AXGD": ("L", lambda p: ux.axgd(p.geometry, p.smoothness)),
    "AMSGrad, last": ("0.1/√t", lambda p: ux.amsgrad(p.geometry, _falling)),
    "projected Adam, last": ("0.001", lambda p: ux.projected(optax.adam(1e-3), p.geometry)),
}
"""What a method is told, and the method; each update takes one gradient."""


def task(problem: Problem, steps: int) -> Task:
    rows = jax.tree.map(lambda part: part.astype(jnp.float32), problem.rows)
    start = problem.start.astype(jnp.float32)
    return Task(problem, start, ux.minibatches(rows, BATCH_SIZE), steps)


def answers(task: Task, optimizer: optax.GradientTransformation, keys: Array) -> Array:
    """Return a method's answers, one a key."""

    def answer(key: Array) -> Array:
        run = ux.solve(
            task.batch_loss,
            task.problem.geometry,
            task.start,
            task.steps,
            sampler=task.sampler,
            key=key,
            optimizer=optimizer,
        )
        return run.params

    return jax.vmap(answer)(keys)


def sgd(task: Task, constant: Array, decays: Array, key: Array) -> Array:
    """Return the average of x_1, ..., x_T, x ← P(x − ηg), with η = c or c/√t."""

    def advance(carry: tuple[Array, Array], t: Array) -> tuple[tuple[Array, Array], None]:
        x, average = carry
        average = average + (x - average) / t
        gradient = jax.grad(task.batch_loss)(x, task.sampler(jax.random.fold_in(key, t)))
        size = constant / jnp.where(decays, jnp.sqrt(t), 1)
        return (task.problem.geometry.project(x - size * gradient), average), None

    steps = jnp.arange(1, task.steps + 1, dtype=jnp.float32)
    return lax.scan(advance, (task.start, task.start), steps)[0][1]


def tuned_sgd(task: Task, keys: Array, errors: Callable[[Array], np.ndarray]) -> tuple[str, Any]:
    """Return the best step size of the grid and its errors."""
    over_keys = jax.vmap(lambda c, decays, key: sgd(task, c, decays, key), in_axes=(None, None, 0))
    over_grid = jax.jit(jax.vmap(over_keys, in_axes=(0, 0, None)))
    constants = np.tile(CONSTANTS, 2).astype(np.float32)
    decays = np.repeat([False, True], CONSTANTS.size)
    by_size = errors(over_grid(constants, decays, keys))
    best = int(np.argmin(np.median(by_size, axis=1)))
    told = f"{constants[best]:.2g}" + ("/√t" if decays[best] else "")
    if constants[best] in (constants[0], constants[-1]):
        told += " (end of the grid)"
    return told, by_size[best]


def rows(
    problems: list[str], methods: list[str], steps: int, seeds: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for every problem and method, the baseline first."""
    for name in problems:
        problem = PROBLEMS[name]()
        best = optimum(problem)
        scale = float(problem.value(problem.start)) - best
        value = jax.jit(jnp.vectorize(problem.value, signature="(n)->()"))

        def errors(
            points: Array,
            value: Callable[[Array], Array] = value,
            best: float = best,
            scale: float = scale,
        ) -> np.ndarray:
            return (np.asarray(value(points.astype(jnp.float64))) - best) / scale

        keys = jax.random.split(jax.random.key(3), seeds)
        current = task(problem, steps)
        told, found = tuned_sgd(current, keys, errors)
        baseline = float(np.median(found))
        yield _row(name, BASELINE, told, found, baseline)
        for method in methods:
            told, make = METHODS[method]
            found = errors(answers(current, make(problem), keys))
            yield _row(name, method, told, found, baseline)


def _row(
    problem: str, method: str, told: str, found: np.ndarray, baseline: float
) -> dict[str, Any]:
    low, median, high = np.quantile(found, [0.1, 0.5, 0.9]).tolist()
    return {
        "problem": problem,
        "method": method,
        "told": told,
        "error": median,
        "10 %": low,
        "90 %": high,
        "ratio": median / baseline,
    }


def pivot(table: list[dict[str, Any]], column: str, form: str) -> list[dict[str, Any]]:
    """Return one row a method with a column a problem."""
    by_method: dict[str, dict[str, Any]] = {}
    for row in table:
        told = "by problem" if row["method"] == BASELINE else row["told"] or "nothing"
        line = by_method.setdefault(row["method"], {"method": row["method"], "told": told})
        line[row["problem"]] = format(row[column], form)
    return list(by_method.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--steps", type=int, default=4000, help="gradients of a run")
    parser.add_argument("--seeds", type=int, default=5, help="runs of a method on a problem")
    parser.add_argument("--output", type=pathlib.Path, help="write all rows as JSON")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)  # for f*; the runs are float32
    table = list(rows(options.problems, options.methods, options.steps, options.seeds))
    print(f"(f − f*)/(f(x₀) − f*) after {options.steps} gradients on {BATCH_SIZE} rows each,")
    print(f"median of {options.seeds} seeds")
    show(pivot(table, "error", ".1e"), None)
    print(f"\nThe same, over {BASELINE}")
    ratios = pivot(table, "ratio", ".2f")
    for line in ratios:
        own = [row["ratio"] for row in table if row["method"] == line["method"]]
        line["geometric mean"] = statistics.geometric_mean(own)
    show(ratios, None)
    print(f"\nStep size and errors of {BASELINE}")
    chosen = [row for row in table if row["method"] == BASELINE]
    show([{**r, **{k: f"{r[k]:.1e}" for k in ("error", "10 %", "90 %")}} for r in chosen], None)
    if options.output:
        options.output.write_text(json.dumps(table, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
