"""The paper's SVM experiment, by the public interface: what the demo command runs."""

import pathlib
import time
from typing import NamedTuple, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from unixgrad_jax._certificates import frank_wolfe_gap
from unixgrad_jax._loops import StepInfo
from unixgrad_jax._minibatches import minibatches
from unixgrad_jax._solve import solve
from unixgrad_jax._types import Array, Key
from unixgrad_jax.datasets import Dataset
from unixgrad_jax.geometries import L2Ball

NUM_STARTS = 5
NUM_RECORDS = 100


class Settings(NamedTuple):
    """What the command line chooses."""

    radius: float
    regularization: float
    steps: int
    batch_size: int
    seed: int

    @property
    def trace_every(self) -> int:
        """Return the steps between two records, of which there are about a hundred."""
        return max(1, self.steps // NUM_RECORDS)


class Split(NamedTuple):
    """Training and test rows, as device arrays."""

    train: tuple[Array, Array]
    test: tuple[Array, Array]


class Report(NamedTuple):
    """Rows belong to the starts; `objectives` and `accuracies` have a column a record."""

    objective: np.ndarray
    gap: np.ndarray
    train_accuracy: np.ndarray
    test_accuracy: np.ndarray
    steps: np.ndarray
    objectives: np.ndarray
    accuracies: np.ndarray
    seconds: float


def split(data: Dataset, seed: int) -> Split:
    """Return a random 80/20 split into training and test rows."""
    order = np.random.default_rng(seed).permutation(len(data.labels))
    cut = round(0.8 * len(order))

    def rows(chosen: np.ndarray) -> tuple[Array, Array]:
        dtype = jnp.result_type(float)
        return jnp.asarray(data.features[chosen], dtype), jnp.asarray(data.labels[chosen], dtype)

    return Split(rows(order[:cut]), rows(order[cut:]))


def objective(weights: Array, batch: tuple[Array, Array], regularization: Array) -> Array:
    """Return mean max(0, 1 − y·⟨x, w⟩)² + (λ/2)‖w‖²."""
    features, labels = batch
    hinge = jnp.maximum(0, 1 - labels * (features @ weights))
    return jnp.mean(hinge**2) + regularization / 2 * jnp.vdot(weights, weights)


def accuracy(weights: Array, rows: tuple[Array, Array]) -> Array:
    """Return the share of rows on the right side of the plane."""
    features, labels = rows
    return jnp.mean((features @ weights > 0) == (labels > 0))


def train(rows: Split, settings: Settings, progress: TextIO) -> Report:
    """Solve from five random starts at once and certify each answer on all the training rows."""
    geometry = L2Ball(settings.radius)
    dimension = rows.train[0].shape[1]
    show = _Progress(settings.steps, progress)

    def record(info: StepInfo) -> tuple[Array, Array, Array]:
        value = objective(info.average, rows.train, regularization)
        jax.debug.callback(show, info.step, value)
        return info.step, value, accuracy(info.average, rows.test)

    def run(key: Key) -> tuple[Array, tuple[Array, Array, Array]]:
        start_key, batch_key = jax.random.split(key)
        solution = solve(
            objective,
            geometry,
            settings.radius * jax.random.ball(start_key, dimension, dtype=rows.train[0].dtype),
            settings.steps,
            args=(regularization,),
            sampler=minibatches(rows.train, settings.batch_size),
            key=batch_key,
            trace=record,
            trace_every=settings.trace_every,
        )
        return solution.params, solution.trace

    def certify(weights: Array) -> tuple[Array, Array, Array, Array]:
        value, gradient = jax.value_and_grad(objective)(weights, rows.train, regularization)
        gap = frank_wolfe_gap(geometry, weights, gradient)
        return value, gap, accuracy(weights, rows.train), accuracy(weights, rows.test)

    regularization = jnp.asarray(settings.regularization, rows.train[0].dtype)
    started = time.perf_counter()
    keys = jax.random.split(jax.random.key(settings.seed), NUM_STARTS)
    weights, (steps, objectives, accuracies) = jax.block_until_ready(jax.vmap(run)(keys))
    jax.effects_barrier()
    seconds = time.perf_counter() - started
    show.close()
    value, gap, train_accuracy, test_accuracy = map(np.asarray, jax.vmap(certify)(weights))
    return Report(
        objective=value,
        gap=gap,
        train_accuracy=train_accuracy,
        test_accuracy=test_accuracy,
        steps=np.asarray(steps[0]),
        objectives=np.asarray(objectives),
        accuracies=np.asarray(accuracies),
        seconds=seconds,
    )


class _Progress:
    """Prints the step and the mean objective of the starts, from inside the compiled loop."""

    def __init__(self, steps: int, stream: TextIO) -> None:
        self.steps = steps
        self.stream = stream
        self.values: list[float] = []
        self.shown = -1

    def __call__(self, step: Array, value: Array) -> None:
        self.values.append(float(value))
        tenth = 10 * int(step) // self.steps
        if len(self.values) < NUM_STARTS:
            return
        mean, self.values = sum(self.values) / NUM_STARTS, []
        if tenth > self.shown:
            self.shown = tenth
            print(
                f"  step {int(step):>9,}   mean objective {mean:.6f}", file=self.stream, flush=True
            )

    def close(self) -> None:
        print(file=self.stream)


def headline(rows: Split, settings: Settings, name: str) -> str:
    """Return what is about to be solved, in two lines."""
    count, dimension = rows.train[0].shape
    return (
        f"Data {name}: {count} training and {len(rows.test[1])} test rows, {dimension} features.\n"
        f"Squared hinge + (λ/2)‖w‖², λ = {settings.regularization:.6g}, "
        f"‖w‖₂ ≤ {settings.radius:g}; {settings.steps:,} steps, "
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


def plot(report: Report, settings: Settings, directory: pathlib.Path) -> pathlib.Path:
    """Save the objective and the test accuracy against gradients, and return the file."""
    import matplotlib as mpl  # an extra, and slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lower_bound = (report.objective - report.gap).max()
    gradients = 2 * report.steps
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
        f"UniXGrad, batches of {settings.batch_size}, ‖w‖₂ ≤ {settings.radius:g}", fontsize=11
    )
    path = directory / "convergence.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
