"""Gradient evaluations to an accuracy: `minimize` and its peers, float64.

Run: python benchmarks/gradients_to_accuracy.py [--problems NAME ...] [--methods NAME ...]
         [--budget N] [--output FILE.json] [--plot FILE.png]

Accuracies are in units of f(x_0) − f*. The error f − f* is that of the best answer so far, which
only a benchmark can know; the gap is what the method has proven by then. For `minimize` a gap is
counted as a user gets it: by a run of its own with `atol` at that accuracy, up to where it stops.
"""

import argparse
import json
import math
import pathlib
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
from _peers import METHODS, Goal, Trace, trace
from _suite import BUILDERS, Problem, optimum, problems
from _timing import show

import unixgrad_jax as ux

ERRORS = (1e-2, 1e-4, 1e-6, 1e-8)
GAPS = (1e-4, 1e-6)
COMPARED_AT = 1e-6
NEVER = "-"
Row = dict[str, Any]


def rows(chosen: list[Problem], methods: list[str], budget: int) -> Iterator[Row]:
    """Yield a row for every problem and every method that applies to it."""
    for problem in chosen:
        best = optimum(problem)
        scale = float(problem.value(problem.start)) - best
        goal = Goal(best + min(ERRORS) * scale, min(GAPS) * scale)
        for method in methods:
            run = trace(method, problem, goal, budget)
            if run is None:
                continue
            row: Row = {"problem": problem.name, "method": method}
            for accuracy in ERRORS:
                row[_error(accuracy)] = _first(run, run.value - best <= accuracy * scale, budget)
            for accuracy in GAPS:
                row[_gap(accuracy)] = (
                    _certified(problem, accuracy * scale, budget)
                    if method == "minimize"
                    else _first(run, run.gap <= accuracy * scale, budget)
                )
            row["gradients"] = int(run.gradients[-1])
            row["other values"] = int(run.evaluations[-1])
            yield row


def _error(accuracy: float) -> str:
    return f"error {accuracy:.0e}"


def _gap(accuracy: float) -> str:
    return f"gap {accuracy:.0e}"


def _first(run: Trace, reached: np.ndarray, budget: int) -> int | str:
    """Return the gradients at the first entry where it was reached."""
    if not reached.any() or run.gradients[reached.argmax()] > budget:
        return NEVER
    return int(run.gradients[reached.argmax()])


def _certified(problem: Problem, accuracy: float, budget: int) -> int | str:
    """Return the gradients that `minimize` takes until it stops with this gap."""
    solution = ux.minimize(
        problem.objective,
        problem.geometry,
        problem.start,
        args=problem.args,
        rtol=0.0,
        atol=accuracy,
        max_steps=budget,
    )
    gradients = int(solution.num_gradients)
    return gradients if float(solution.gap) <= accuracy and gradients <= budget else NEVER


def pivot(table: list[Row], column: str, methods: list[str]) -> list[Row]:
    """Return one row a problem with a column a method."""
    by_problem: dict[str, Row] = {}
    for row in table:
        counts = by_problem.setdefault(row["problem"], dict.fromkeys(methods, NEVER))
        if row["method"] in counts:
            counts[row["method"]] = row[column]
    return [{"problem": problem, **counts} for problem, counts in by_problem.items()]


def summary(table: list[Row], column: str, methods: list[str]) -> list[Row]:
    """Return the counts of each method in units of those of `minimize`, where both got there."""
    counts = pivot(table, column, methods)
    result: list[Row] = []
    for method in methods:
        both = [row for row in counts if NEVER not in (row["minimize"], row[method])]
        if both:
            multiples = [row[method] / row["minimize"] for row in both]
            result.append(
                {
                    "method": method,
                    "problems": len(both),
                    "median count": statistics.median(row[method] for row in both),
                    "over minimize: median": statistics.median(multiples),
                    "least": min(multiples),
                    "most": max(multiples),
                }
            )
    return result


def profile(table: list[Row], methods: Iterable[str], path: pathlib.Path) -> None:
    """Draw the share of problems that a method solved within a multiple of the fewest gradients.

    This is the performance profile of Dolan and Moré (Math. Program. 2002), at an error of 1e-6.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    counts = pivot(table, _error(COMPARED_AT), list(methods))
    solved = [
        {name: count for name, count in row.items() if isinstance(count, int)} for row in counts
    ]
    fewest = [min(row.values(), default=1) for row in solved]
    furthest = max(
        (count / few for row, few in zip(solved, fewest, strict=True) for count in row.values()),
        default=2.0,
    )
    figure, axes = plt.subplots(figsize=(8, 5), constrained_layout=True)
    for name in methods:
        multiples = sorted(
            row[name] / few for row, few in zip(solved, fewest, strict=True) if name in row
        )
        shares = np.arange(len(multiples) + 1) / len(solved)
        ends = [1.0, *multiples, 1.1 * furthest]
        axes.step(ends, [*shares, shares[-1]], where="post", label=name, dashes=_dashes(name))
    axes.set_xscale("log", base=2)
    axes.set(
        xlabel="gradient evaluations, as a multiple of the fewest",
        ylabel="share of the problems",
        title=f"f − f* ≤ {COMPARED_AT:.0e}·(f(x₀) − f*), {len(solved)} problems",
        ylim=(0, 1.02),
        xlim=(1, 2 ** math.ceil(math.log2(1.1 * furthest))),
    )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _dashes(name: str) -> tuple[float, ...]:
    """Return the dashes of those that know more than the others, a line for the rest."""
    return (4, 2) if "told" in name else ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--problems", nargs="+", choices=list(BUILDERS), metavar="NAME")
    parser.add_argument(
        "--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="NAME"
    )
    parser.add_argument("--budget", type=int, default=10_000, help="gradients a run may take")
    parser.add_argument("--output", type=pathlib.Path, help="write all counts as JSON")
    parser.add_argument("--plot", type=pathlib.Path, help="draw a performance profile")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    table = list(rows(problems(options.problems), options.methods, options.budget))
    for column in [*map(_error, ERRORS), *map(_gap, GAPS)]:
        print(f"\nGradients to {column}")
        show(pivot(table, column, options.methods), None)
    summaries = {}
    if "minimize" in options.methods:
        for column in (_error(COMPARED_AT), _gap(COMPARED_AT)):
            summaries[column] = summary(table, column, options.methods)
            print(f"\nGradients to {column}, over those of minimize")
            show(summaries[column], None)
    if options.output:
        options.output.write_text(
            json.dumps({"counts": table, "summaries": summaries}, indent=1), encoding="utf-8"
        )
    if options.plot:
        profile(table, options.methods, options.plot)


if __name__ == "__main__":
    main()
