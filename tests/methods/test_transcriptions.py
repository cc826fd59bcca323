"""The other methods of the paper against NumPy transcriptions of their own papers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import oracle, problems
from tests.methods.test_unixgrad import CASES, SIZE, feasible_start

A, _, B = problems.regression_data(30, SIZE)
NUM_STEPS = 60
WEIGHTED = {
    "ball": lambda v, w: oracle.project_l2_ball_weighted(v, w, 2.0),
    "box": lambda v, w: np.clip(v, -0.5, 0.75),
    "simplex": lambda v, w: oracle.project_simplex_weighted(v, w, 1.5),
    "l1_ball": lambda v, w: oracle.project_l1_ball_weighted(v, w, 2.0),
}


def gradient(x: np.ndarray) -> np.ndarray:
    return A.T @ (A @ x - B) / 30


def shrinking(step: Any) -> Any:
    """Return the learning rate of AMSGrad's theory."""
    return 0.3 / (step + 1.0) ** 0.5


def halving(step: Any) -> Any:
    """Return a schedule for Mirror-Prox."""
    return 0.1 / 2.0 ** (step // 10)


class Transcribed(NamedTuple):
    """A method, its transcription, how many updates an iteration takes, and where it is tried."""

    make: Callable[[ux.Geometry], optax.GradientTransformation]
    expected: Callable[[str, np.ndarray], np.ndarray]
    period: int
    sets: list[str]


def transcribed(function: Callable, *arguments: Any) -> Callable[[str, np.ndarray], np.ndarray]:
    return lambda name, start: function(gradient, start, CASES[name][1], NUM_STEPS, *arguments)


TABLE = {
    "mirror_prox": Transcribed(
        lambda k: ux.mirror_prox(k, 0.1),
        transcribed(oracle.mirror_prox, 0.1),
        2,
        ["ball", "box", "entropic_simplex"],
    ),
    "extragradient": Transcribed(
        lambda k: ux.extragradient(k, 0.1), transcribed(oracle.mirror_prox, 0.1), 2, ["simplex"]
    ),
    "optimistic_mirror_descent": Transcribed(
        lambda k: ux.optimistic_mirror_descent(k, 0.1),
        transcribed(oracle.optimistic_mirror_descent, 0.1),
        1,
        ["ball", "l1_ball", "entropic_simplex"],
    ),
    "universal_mirror_prox": Transcribed(
        lambda k: ux.universal_mirror_prox(k, g0=0.7),
        transcribed(oracle.universal_mirror_prox, 0.7),
        2,
        ["ball", "simplex", "entropic_simplex"],
    ),
    "accelegrad": Transcribed(
        lambda k: ux.accelegrad(k, g0=0.7),
        transcribed(oracle.accelegrad, 0.7),
        1,
        ["ball", "simplex"],
    ),
    "accelegrad without G": Transcribed(
        ux.accelegrad, transcribed(oracle.accelegrad, 0.0), 1, ["box"]
    ),
    "axgd": Transcribed(
        lambda k: ux.axgd(k, 6.0),
        transcribed(oracle.axgd, 6.0),
        2,
        ["ball", "l1_ball", "entropic_simplex"],
    ),
    "adagrad_norm": Transcribed(
        ux.adagrad_norm,
        lambda *where: transcribed(oracle.adagrad_norm)(*where)[0],
        1,
        ["ball", "simplex"],
    ),
    "adagrad_norm, last": Transcribed(
        lambda k: ux.adagrad_norm(k, average=False),
        lambda *where: transcribed(oracle.adagrad_norm)(*where)[1],
        1,
        ["box"],
    ),
    "amsgrad": Transcribed(
        lambda k: ux.amsgrad(k, shrinking, b1=0.8, b2=0.9),
        lambda name, start: oracle.amsgrad(
            gradient, start, WEIGHTED[name], NUM_STEPS, shrinking, 0.8, 0.9
        ),
        1,
        ["ball", "box", "simplex", "l1_ball"],
    ),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("method", "name"),
    [
        pytest.param(method, name, id=f"{label}-{name}")
        for label, method in TABLE.items()
        for name in method.sets
    ],
)
def test_every_answer_equals_the_transcription(method: Transcribed, name: str) -> None:
    geometry, start = CASES[name][0], feasible_start()

    @jax.jit
    def answers(start: jax.Array, A: jax.Array, b: jax.Array) -> jax.Array:
        return ux.solve(
            problems.least_squares,
            geometry,
            start,
            NUM_STEPS * method.period,
            args=(A, b),
            optimizer=method.make(geometry),
            trace=lambda info: info.average,
            trace_every=method.period,
        ).trace

    got = answers(*map(jnp.asarray, (start, A, B)))
    expected = method.expected(name, start)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.usefixtures("x64")
def test_projected_sgd_is_the_projected_gradient_method() -> None:
    geometry = ux.L1Ball(2.0)
    run = ux.solve(
        problems.least_squares,
        geometry,
        jnp.asarray(feasible_start()),
        NUM_STEPS,
        args=(jnp.asarray(A), jnp.asarray(B)),
        optimizer=ux.projected(optax.sgd(0.1), geometry),
    )
    x = feasible_start()
    for _ in range(NUM_STEPS):
        x = oracle.project_l1_ball(x - 0.1 * gradient(x), 2.0)
    np.testing.assert_allclose(run.params, x, atol=1e-12)


def test_adam_with_a_euclidean_projection_stops_elsewhere_and_amsgrad_does_not() -> None:
    geometry, target = ux.Simplex(), jnp.array([0.9, 0.5, -0.4])
    optima = [
        ux.solve(
            lambda x: jnp.sum((x - target) ** 2),
            geometry,
            jnp.full(3, 1 / 3),
            1000,
            optimizer=optimizer,
        ).params
        for optimizer in (ux.projected(optax.adam(0.01), geometry), ux.amsgrad(geometry, 0.01))
    ]
    np.testing.assert_allclose(optima[0], [0.56, 0.44, 0.0], atol=0.01)
    np.testing.assert_allclose(optima[1], [0.7, 0.3, 0.0], atol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("method", [ux.mirror_prox, ux.optimistic_mirror_descent])
def test_a_schedule_counts_finished_iterations(method: Callable) -> None:
    """Against one run a stage: the schedule halves the rate after ten iterations."""
    geometry = ux.L2Ball(2.0)
    period = 2 if method is ux.mirror_prox else 1

    def last(start: jax.Array, rate: Any, num_steps: int) -> jax.Array:
        optimizer = method(geometry, rate)
        params, state = start, optimizer.init(start)
        for _ in range(num_steps * period):
            updates, state = optimizer.update(
                jnp.asarray(A.T @ (A @ params - B) / 30), state, params
            )
            params = optax.apply_updates(params, updates)
        return params

    start = jnp.asarray(feasible_start())
    if method is ux.mirror_prox:  # which remembers nothing but y and the average
        staged = last(last(start, 0.1, 10), 0.05, 5)
        np.testing.assert_allclose(last(start, halving, 15), staged, atol=1e-12)
    else:
        np.testing.assert_allclose(last(start, halving, 9), last(start, 0.1, 9), atol=1e-12)
        assert np.abs(last(start, halving, 15) - last(start, 0.1, 15)).max() > 1e-4


@pytest.mark.parametrize("method", ["extragradient", "accelegrad", "adagrad_norm"])
def test_euclidean_methods_refuse_other_mirror_maps(method: str) -> None:
    make = getattr(ux, method)
    arguments = (0.1,) if method == "extragradient" else ()
    inside = ux.Product({"a": ux.L2Ball(1.0), "b": ux.Batched(ux.EntropicSimplex())})
    for geometry in (ux.EntropicSimplex(), ux.PNormBall(1.0), inside):
        with pytest.raises(TypeError, match=f"{method} projects in the Euclidean norm"):
            make(geometry, *arguments)
    euclidean = ux.Product({"a": ux.Penalized(ux.L2Ball(1.0), ux.L1Norm(0.1)), "b": ux.Simplex()})
    params = {"a": jnp.zeros(2), "b": jnp.full(2, 0.5)}
    make(euclidean, *arguments).init(params)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ux.mirror_prox(ux.L2Ball, 0.1), TypeError, "must be a unixgrad_jax.Geometry"),
        (lambda: ux.mirror_prox(ux.L2Ball(), -0.1), ValueError, "learning_rate must be non-neg"),
        (lambda: ux.optimistic_mirror_descent(ux.L2Ball(), np.nan), ValueError, "learning_rate"),
        (lambda: ux.extragradient(ux.L2Ball(), "fast"), TypeError, "learning_rate must be a real"),
        (lambda: ux.universal_mirror_prox(ux.L2Ball(), g0=0), ValueError, "g0 must be positive"),
        (lambda: ux.universal_mirror_prox(ux.L2Ball(), diameter=-1), ValueError, "diameter must"),
        (lambda: ux.accelegrad(ux.L2Ball(), g0=-1), ValueError, "g0 must be non-negative"),
        (lambda: ux.accelegrad(3), TypeError, "must be a unixgrad_jax.Geometry"),
        (lambda: ux.adagrad_norm(ux.L2Ball(), diameter=np.inf), ValueError, "diameter must"),
        (lambda: ux.axgd(ux.L2Ball(), 0.0), ValueError, "smoothness must be positive"),
        (lambda: ux.amsgrad(ux.GroupBall(), 0.1), TypeError, "GroupBall has no projection in"),
        (lambda: ux.amsgrad(ux.L2Ball(), 0.1, b1=1.0), ValueError, r"b1 must be in \[0, 1\)"),
        (lambda: ux.amsgrad(ux.L2Ball(), 0.1, b2=-0.5), ValueError, "b2 must be non-negative"),
        (lambda: ux.projected(ux.L2Ball(), ux.L2Ball()), TypeError, "must be an optax transform"),
        (lambda: ux.projected(optax.sgd(0.1), 0.1), TypeError, "must be a unixgrad_jax.Geometry"),
        (lambda: ux.projected(optax.sgd(0.1), ux.EntropicSimplex()), TypeError, "such as Simplex"),
        (
            lambda: ux.projected(optax.sgd(0.1), ux.Penalized(ux.L2Ball(), ux.L1Norm())),
            ValueError,
            "cannot minimize the penalty",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(call: Callable, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
