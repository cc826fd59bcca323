"""Wall time to an accuracy: `minimize` and jaxopt's accelerated ProjectedGradient, float64.

Run: python benchmarks/time_to_accuracy.py [--problems NAME ...] [--output FILE.json]

Both get the same true error, in units of f(x_0) − f*, by the loosest of their own tolerances (two
to a decade; those of `minimize` in units of |f(x_0)|) whose answer has it, and are then timed side
by side, compiled. Both project with the projections of this package, so that the methods alone
differ; jaxopt's other settings are its defaults, but for the number of iterations, of which 500 are
too few. "batch" rows are 256 least-squares problems at once under `jax.vmap`, tolerances such that
the worst of them is right.
"""

import argparse
import pathlib
import statistics
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from _suite import BUILDERS, Array, Problem, least_squares, optimum, problems
from _timing import seconds, show, side_by_side

import unixgrad_jax as ux

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # jaxopt says on import that it is no longer maintained
    import jaxopt

ACCURACIES = (1e-4, 1e-6)
TOLERANCES = [10 ** (-exponent / 2) for exponent in range(1, 27)]
MAX_STEPS = 20_000
BATCH = 256
SETS: dict[str, tuple[ux.Geometry, float]] = {
    "l2 ball": (ux.L2Ball(3.0), 0.0),
    "simplex": (ux.Simplex(), 1 / 20),
    "l1 ball": (ux.L1Ball(8.0), 0.0),
}
"""The set, and what all entries of the start are."""
REPEATS = 7
SECONDS = 0.05
"""About how long each of the alternating runs takes."""
Run = Callable[[Array, Array, tuple[Array, ...]], Array]
"""From a tolerance, a start and the data to the answer."""


class Solver(NamedTuple):
    """A compiled method, and the unit of its tolerance."""

    run: Run
    unit: Array

    def at(self, tolerance: float) -> Callable[..., Array]:
        """Return the method with this tolerance, as a function of start and data."""
        scaled = tolerance * self.unit
        return lambda start, args: self.run(scaled, start, args)


class Task(NamedTuple):
    """Two solvers, what they are given, and the optima, one a problem."""

    name: str
    ours: Solver
    peer: Solver
    value: Callable[[Array, tuple[Array, ...]], Array]
    start: Array
    args: tuple[Array, ...]
    best: Array

    def error(self, solver: Solver, tolerance: float) -> float:
        """Return the worst f(x) − f* in units of f(x_0) − f*."""
        answer = solver.at(tolerance)(self.start, self.args)
        scale = self.value(self.start, self.args) - self.best
        return float(jnp.max((self.value(answer, self.args) - self.best) / scale))

    def loosest(self, solver: Solver, accuracy: float) -> float | None:
        """Return the first tolerance whose answer is that accurate."""
        return next((t for t in TOLERANCES if self.error(solver, t) <= accuracy), None)


def single(problem: Problem) -> Task:
    ours, peer = methods(problem.objective, problem.geometry)

    def value(x: Array, args: tuple[Array, ...]) -> Array:
        return problem.objective(x, *args)

    return Task(
        problem.name,
        Solver(jax.jit(ours), jnp.abs(value(problem.start, problem.args))),
        Solver(jax.jit(peer), jnp.ones(())),
        value,
        problem.start,
        problem.args,
        jnp.asarray(optimum(problem)),
    )


def batch(name: str) -> Task:
    """Return 256 problems min ‖Ax − b‖²/(2n), n = 50, d = 20, with normal A and b = Ax♮ + noise."""
    geometry, entry = SETS[name]
    keys = jax.random.split(jax.random.PRNGKey(5), 3)
    A = jax.random.normal(keys[0], (BATCH, 50, 20))
    truth = jax.random.normal(keys[1], (BATCH, 20))
    b = jnp.einsum("kij,kj->ki", A, truth) + 0.1 * jax.random.normal(keys[2], (BATCH, 50))
    start = jnp.full((BATCH, 20), entry)
    L = jnp.linalg.norm(A, ord=2, axis=(1, 2)) ** 2 / 50
    ours, peer = methods(least_squares, geometry)
    each = [
        Problem(name, least_squares, geometry, start[k], (A[k], b[k]), float(L[k]))
        for k in range(BATCH)
    ]
    best = jnp.asarray([optimum(problem) for problem in each])
    value = jax.vmap(lambda x, args: least_squares(x, *args))
    return Task(
        f"batch, {name}",
        Solver(jax.jit(jax.vmap(ours)), jnp.abs(value(start, (A, b)))),
        Solver(jax.jit(jax.vmap(peer, in_axes=(None, 0, 0))), jnp.ones(())),
        value,
        start,
        (A, b),
        best,
    )


def methods(objective: Callable[..., Array], geometry: ux.Geometry) -> tuple[Run, Run]:
    """Return `minimize`, whose tolerance is absolute, and jaxopt's method."""

    def ours(tolerance: Array, start: Array, args: tuple[Array, ...]) -> Array:
        solution = ux.minimize(
            objective,
            geometry,
            start,
            args=args,
            rtol=0.0,
            atol=tolerance,
            max_steps=MAX_STEPS,
        )
        return solution.params

    def peer(tolerance: Array, start: Array, args: tuple[Array, ...]) -> Array:
        solver = jaxopt.ProjectedGradient(
            objective,
            projection=lambda x, _: geometry.project(x),
            tol=tolerance,  # pyright: ignore[reportArgumentType]
            maxiter=MAX_STEPS,
        )
        return solver.run(start, None, *args).params

    return ours, peer


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Yield a row an accuracy that both reach."""
    for accuracy in ACCURACIES:
        row: dict[str, Any] = {"problem": task.name, "error": f"{accuracy:.0e}"}
        tolerances = [task.loosest(solver, accuracy) for solver in (task.ours, task.peer)]
        own, other = tolerances
        if own is None or other is None:
            reached = [name for name, t in zip(("ours", "jaxopt"), tolerances, strict=True) if t]
            blank = dict.fromkeys(("ours ms", "jaxopt ms", "ours/jaxopt"), "-")
            yield {**row, **blank, "reached by": ", ".join(reached) or "neither"}
            continue
        arguments = (task.start, task.args)
        own_run, other_run = task.ours.at(own), task.peer.at(other)
        seconds(own_run, *arguments)
        calls = max(1, round(SECONDS / seconds(own_run, *arguments)))
        times = side_by_side(own_run, other_run, *arguments, repeats=REPEATS, calls=calls)
        yield {
            **row,
            "ours ms": 1e3 * times[0],
            "jaxopt ms": 1e3 * times[1],
            "ours/jaxopt": times[2],
            "reached by": "both",
        }


def medians(rows: list[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Yield the median ratio of these rows, an accuracy."""
    for accuracy in ACCURACIES:
        ratios = [
            row["ours/jaxopt"]
            for row in rows
            if row["error"] == f"{accuracy:.0e}" and row["reached by"] == "both"
        ]
        if ratios:
            blank = dict.fromkeys(rows[0], "")
            median = {"problem": name, "error": f"{accuracy:.0e}"}
            yield {**blank, **median, "ours/jaxopt": statistics.median(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    names = [*BUILDERS, *(f"batch, {name}" for name in SETS)]
    parser.add_argument("--problems", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--output", type=pathlib.Path, help="also write the table as JSON")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    chosen = problems(name for name in options.problems if name in BUILDERS)
    alone = [row for problem in chosen for row in measure(single(problem))]
    sets = [name for name in SETS if f"batch, {name}" in options.problems]
    batches = [row for name in sets for row in measure(batch(name))]
    alone += medians(alone, "median")
    show([*alone, *batches, *medians(batches, "median of the batches")], options.output)


if __name__ == "__main__":
    main()
