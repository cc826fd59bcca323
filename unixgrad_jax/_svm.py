"""The paper's SVM experiment, by the public interface: what the demo command runs."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import jax
import jax.numpy as jnp
import numpy as np
import optax

from unixgrad_jax._certificates import frank_wolfe_gap
from unixgrad_jax._loops import StepInfo
from unixgrad_jax._minibatches import minibatches
from unixgrad_jax._solve import solve
from unixgrad_jax._types import Array, Key
from unixgrad_jax.datasets import Dataset
from unixgrad_jax.geometries import L2Ball
from unixgrad_jax.methods import (
    accelegrad,
    adagrad_norm,
    amsgrad,
    axgd,
    extragradient,
    mirror_prox,
    optimistic_mirror_descent,
    projected,
    universal_mirror_prox,
)

NUM_STARTS = 5
NUM_RECORDS = 100


class Method(NamedTuple):
    """A method, untuned: what it is told, and the transform for a set and a smoothness constant.

    UniXGrad, which `solve` runs by default, needs no transform.
    """

    told: str
    make: Callable[[L2Ball, Array], optax.GradientTransformation] | None


METHODS = {
    "unixgrad": Method("nothing", None),
    "accelegrad": Method("nothing", lambda ball, _: accelegrad(ball)),
    "universal_mirror_prox": Method("G0 = 1", lambda ball, _: universal_mirror_prox(ball)),
    "mirror_prox": Method("step 1/L", lambda ball, L: mirror_prox(ball, 1 / L)),
    "extragradient": Method("step 1/L", lambda ball, L: extragradient(ball, 1 / L)),
    "optimistic_mirror_descent": Method(
        "step 1/2L", lambda ball, L: optimistic_mirror_descent(ball, 1 / (2 * L))
    ),
    "axgd": Method("L", lambda ball, L: axgd(ball, L)),
    "adagrad_norm": Method("last iterate", lambda ball, _: adagrad_norm(ball, average=False)),
    "amsgrad": Method("step 0.1/√t", lambda ball, _: amsgrad(ball, _falling(0.1))),
    "projected_sgd": Method(
        "step 1/(L√t)", lambda ball, L: projected(optax.sgd(_falling(1 / L)), ball)
    ),
}


def _falling(first: Array | float) -> Callable[[Any], Array]:
    """Return the step sizes c/√t."""
    return lambda step: first / jnp.sqrt(step + 1.0)


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
    """Rows belong to the starts; `objectives` and `accuracies` have a column a record.

    `gradients` are the minibatch gradients that each record has seen.
    """

    objective: np.ndarray
    gap: np.ndarray
    train_accuracy: np.ndarray
    test_accuracy: np.ndarray
    gradients: np.ndarray
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


def train(rows: Split, settings: Settings, method: str, progress: TextIO | None) -> Report:
    """Solve from five random starts at once and certify each answer on all the training rows.

    Every method sees `2·settings.steps` minibatch gradients.
    """
    geometry = L2Ball(settings.radius)
    dimension = rows.train[0].shape[1]
    regularization = jnp.asarray(settings.regularization, rows.train[0].dtype)
    show = _Progress(settings.steps, progress)
    make = METHODS[method].make
    optimizer = None if make is None else make(geometry, smoothness(rows, regularization))
    updates = 1 if optimizer is None else 2  # in one iteration of two gradients

    def record(info: StepInfo) -> tuple[Array, Array, Array]:
        value = objective(info.average, rows.train, regularization)
        if progress is not None:
            jax.debug.callback(show, info.step // updates, value)
        return 2 * info.step // updates, value, accuracy(info.average, rows.test)

    def run(key: Key) -> tuple[Array, tuple[Array, Array, Array]]:
        start_key, batch_key = jax.random.split(key)
        solution = solve(
            objective,
            geometry,
            settings.radius * jax.random.ball(start_key, dimension, dtype=rows.train[0].dtype),
            updates * settings.steps,
            args=(regularization,),
            sampler=minibatches(rows.train, settings.batch_size),
            key=batch_key,
            optimizer=optimizer,
            trace=record,
            trace_every=updates * settings.trace_every,
        )
        return solution.params, solution.trace

    started = time.perf_counter()
    keys = jax.random.split(jax.random.key(settings.seed), NUM_STARTS)
    weights, (gradients, objectives, accuracies) = jax.block_until_ready(jax.vmap(run)(keys))
    jax.effects_barrier()
    seconds = time.perf_counter() - started
    show.close()
    value, gap, train_accuracy, test_accuracy = map(
        np.asarray,
        jax.vmap(certify, in_axes=(0, None, None, None))(weights, rows, geometry, regularization),
    )
    return Report(
        objective=value,
        gap=gap,
        train_accuracy=train_accuracy,
        test_accuracy=test_accuracy,
        gradients=np.asarray(gradients[0]),
        objectives=np.asarray(objectives),
        accuracies=np.asarray(accuracies),
        seconds=seconds,
    )


def certify(
    weights: Array, rows: Split, geometry: L2Ball, regularization: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the objective on all training rows, the bound on its error, and both accuracies."""
    value, gradient = jax.value_and_grad(objective)(weights, rows.train, regularization)
    gap = frank_wolfe_gap(geometry, weights, gradient)
    return value, gap, accuracy(weights, rows.train), accuracy(weights, rows.test)


def smoothness(rows: Split, regularization: Array) -> Array:
    """Return L = 2·λ_max(XᵀX)/n + λ on the training rows, a Lipschitz constant of the gradient."""
    features, _ = rows.train
    return 2 * jnp.linalg.norm(features, ord=2) ** 2 / len(features) + regularization


class _Progress:
    """Prints the step and the mean objective of the starts, from inside the compiled loop."""

    def __init__(self, steps: int, stream: TextIO | None) -> None:
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
        if self.stream is not None:
            print(file=self.stream)
