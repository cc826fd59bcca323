"""What the demo command prints and draws."""

import pathlib
from typing import Any

from unixgrad_jax._svm import METHODS, NUM_STARTS, Report, Settings, Split


def headline(rows: Split, settings: Settings, name: str) -> str:
    """Return what is about to be solved, in two lines."""
    count, dimension = rows.train[0].shape
    return (
        f"Data {name}: {count} training and {len(rows.test[1])} test rows, {dimension} features.\n"
        f"Squared hinge + (λ/2)‖w‖², λ = {settings.regularization:.6g}, "
        f"‖w‖₂ ≤ {settings.radius:g}; {settings.steps:,} steps of two gradients, "
        f"batches of {settings.batch_size}, {NUM_STARTS} starts at once."
    )


def table(report: Report, settings: Settings) -> str:
    """Return the results, a line a start and their mean."""
    columns = (report.objective, report.gap, report.train_accuracy, report.test_accuracy)
    names = [*(str(i + 1) for i in range(NUM_STARTS)), "mean"]
    rows = [*zip(*columns, strict=True), [column.mean() for column in columns]]
    times = [*[""] * NUM_STARTS, f"{report.seconds:.1f}"]
    heads = ("objective", "proven gap", "train acc.", "test acc.", "gradients", "seconds")
    lines = [f"{'start':>5}" + "".join(f"{head:>12}" for head in heads)]
    lines += [
        f"{name:>5}{value:>12.6f}{gap:>12.6f}{train:>12.1%}{test:>12.1%}"
        f"{2 * settings.steps:>12,}{time:>12}"
        for name, (value, gap, train, test), time in zip(names, rows, times, strict=True)
    ]
    lines.append(
        "The gap bounds the error of the objective on all training rows, by an exact gradient.\n"
        f"The seconds are those of all {NUM_STARTS} starts together, compilation included."
    )
    return "\n".join(line.rstrip() for line in lines)


def comparison(reports: dict[str, Report], settings: Settings) -> str:
    """Return the results of several methods, a line a method: means over the starts."""
    width = max(map(len, reports)) + 2
    heads = ("told", "objective", "± starts", "proven gap", "test acc.", "± starts", "seconds")
    lines = [f"{'method':<{width}}{heads[0]:>14}" + "".join(f"{head:>12}" for head in heads[1:])]
    for name, report in reports.items():
        objective, accuracy = report.objective, report.test_accuracy
        lines.append(
            f"{name:<{width}}{METHODS[name].told:>14}{objective.mean():>12.6f}"
            f"{objective.std():>12.6f}{report.gap.mean():>12.6f}{accuracy.mean():>12.1%}"
            f"{accuracy.std():>12.1%}{report.seconds:>12.1f}"
        )
    lines.append(
        f"Every method saw {2 * settings.steps:,} minibatch gradients a start, and none is tuned: "
        "L is that of all training rows.\n"
        "AdaGrad, AMSGrad and SGD are read at their last iterates, the others at their averages."
    )
    return "\n".join(lines)


def plot_comparison(
    reports: dict[str, Report], settings: Settings, directory: pathlib.Path
) -> pathlib.Path:
    """Save the objective and the test accuracy of several methods, and return the file."""
    plt = _pyplot()
    lower_bound = max((report.objective - report.gap).max() for report in reports.values())
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.5), constrained_layout=True)
    for i, (name, report) in enumerate(reports.items()):
        style = {"color": f"C{i}", "linestyle": "-" if i % 2 else "--"}
        errors = report.objectives - lower_bound
        left.loglog(report.gradients, errors.mean(axis=0), label=name, **style)
        left.fill_between(
            report.gradients, errors.min(axis=0), errors.max(axis=0), color=f"C{i}", alpha=0.12
        )
        right.semilogx(report.gradients, report.accuracies.mean(axis=0), **style)
    left.set(
        xlabel="minibatch gradients",
        ylabel="objective − best proven lower bound",
        title="Training objective: mean and range of five starts",
    )
    right.set(xlabel="minibatch gradients", ylabel="test accuracy", title="Mean of five starts")
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
    figure.legend(loc="outside right upper", fontsize=9)
    figure.suptitle(
        f"Untuned, batches of {settings.batch_size}, ‖w‖₂ ≤ {settings.radius:g}", fontsize=11
    )
    return _saved(figure, directory / "comparison.png")


def plot(report: Report, settings: Settings, method: str, directory: pathlib.Path) -> pathlib.Path:
    """Save the objective and the test accuracy against gradients, and return the file."""
    plt = _pyplot()
    lower_bound = (report.objective - report.gap).max()
    gradients = report.gradients
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for curve in report.objectives:
        left.loglog(gradients, curve - lower_bound, color="tab:blue", alpha=0.3)
    left.loglog(gradients, report.objectives.mean(axis=0) - lower_bound, color="tab:blue")
    left.set(
        xlabel="minibatch gradients",
        ylabel="objective − proven lower bound",
        title="Training objective, five starts and their mean",
    )
    mean, spread = report.accuracies.mean(axis=0), report.accuracies.std(axis=0)
    right.semilogx(gradients, mean, color="tab:green")
    right.fill_between(gradients, mean - spread, mean + spread, color="tab:green", alpha=0.2)
    right.set(xlabel="minibatch gradients", ylabel="test accuracy", title="Mean ± one deviation")
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
    figure.suptitle(
        f"{method}, batches of {settings.batch_size}, ‖w‖₂ ≤ {settings.radius:g}", fontsize=11
    )
    return _saved(figure, directory / "convergence.png")


def _pyplot() -> Any:
    import matplotlib as mpl  # an extra, and slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _saved(figure: Any, path: pathlib.Path) -> pathlib.Path:
    figure.savefig(path, dpi=150)
    _pyplot().close(figure)
    return path
