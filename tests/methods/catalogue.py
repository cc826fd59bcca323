"""The table of methods: whoever adds a method adds it here, and every law is tested on it.

A test on each method and on several values of something else (dtypes, trees, wrappers) takes all
values for the methods in WHOLE, and for each other one two values, so that all values get their
turn: what these tests look at is mostly code that the methods share.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest

import unixgrad_jax as ux
from tests.sampling import slow_unless

START = {"a": jnp.array(0.25, jnp.float32), "b": (jnp.array([0.1, 0.2, 0.3, 0.15]),)}
TARGET = {"a": jnp.array(-0.5, jnp.float32), "b": (jnp.array([0.3, -1.5, 0.7, 2.0]),)}


def gradient(params: Any) -> Any:
    """Return the gradient of ‖x − target‖²/2, in the dtypes of params."""
    return jax.tree.map(lambda x, target: x - target.astype(x.dtype), params, TARGET)


class Method(NamedTuple):
    """A method as an optax transform.

    Attributes:
        make: the transform, of a geometry and keyword-only hyperparameters.
        hyperparameters: those that are numbers, with values that differ from the defaults.
        period: after how many updates its params are at the start of an iteration again.
        opaque: whether an update needs `grad_fn`.
        euclidean: whether it takes Euclidean geometries only.
    """

    make: Callable[..., optax.GradientTransformationExtraArgs]
    hyperparameters: dict[str, float]
    period: int
    opaque: bool = False
    euclidean: bool = False


def projected_sgd(
    geometry: ux.Geometry, learning_rate: Any = 0.05
) -> optax.GradientTransformationExtraArgs:
    return ux.projected(optax.sgd(learning_rate), geometry)


RATE, MOMENTS = {"learning_rate": 0.02}, {"b1": 0.5, "b2": 0.9}

METHODS = {
    "unixgrad": Method(ux.unixgrad, {"diameter": 0.8, "offset": 3.0}, period=2),
    "unixgrad_without_offset": Method(
        functools.partial(ux.unixgrad, offset=None), {"diameter": 0.8}, period=2
    ),
    "unixgrad_opaque": Method(
        functools.partial(ux.unixgrad, opaque=True),
        {"diameter": 0.8, "offset": 3.0},
        period=1,
        opaque=True,
    ),
    "mirror_prox": Method(functools.partial(ux.mirror_prox, learning_rate=0.05), RATE, period=2),
    "extragradient": Method(
        functools.partial(ux.extragradient, learning_rate=0.05), RATE, period=2, euclidean=True
    ),
    "optimistic_mirror_descent": Method(
        functools.partial(ux.optimistic_mirror_descent, learning_rate=0.05), RATE, period=1
    ),
    "universal_mirror_prox": Method(
        ux.universal_mirror_prox, {"diameter": 0.8, "g0": 3.0}, period=2
    ),
    "accelegrad": Method(ux.accelegrad, {"diameter": 0.8, "g0": 3.0}, period=1, euclidean=True),
    "axgd": Method(functools.partial(ux.axgd, smoothness=12.0), {"smoothness": 30.0}, period=2),
    "adagrad_norm": Method(ux.adagrad_norm, {"diameter": 0.8}, period=1, euclidean=True),
    "adagrad_norm_last": Method(
        functools.partial(ux.adagrad_norm, average=False),
        {"diameter": 0.8},
        period=1,
        euclidean=True,
    ),
    "amsgrad": Method(
        functools.partial(ux.amsgrad, learning_rate=0.05), RATE | MOMENTS, period=1, euclidean=True
    ),
    "projected_sgd": Method(projected_sgd, RATE, period=1, euclidean=True),
}

VARIANTS = {
    "unixgrad_without_offset",
    "mirror_prox",
    "extragradient",
    "optimistic_mirror_descent",
    "axgd",
    "adagrad_norm",
    "adagrad_norm_last",
}
"""Methods that share much of their code with another one: left out by default, like float64."""

WHOLE = ("unixgrad", "unixgrad_without_offset")
"""Methods tested on all values of everything."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests on this method."""
    return slow_unless(METHODS.keys() - VARIANTS, name)


def table(names: Iterable[str]) -> list[Any]:
    """Return test parameters for methods of the table."""
    return [pytest.param(METHODS[name], id=name, marks=marks(name)) for name in names]


def each_method_with(
    argument: str,
    values: Sequence[Any],
    fits: Callable[[Method, Any], bool] = lambda method, value: True,
) -> pytest.MarkDecorator:
    """Return the parametrization of a test by methods and values, where they fit together."""
    pairs = []
    for turn, (name, method) in enumerate(METHODS.items()):
        usable = [value for value in values if fits(method, value)]
        if name not in WHOLE:
            usable = [usable[i % len(usable)] for i in (turn, turn + len(usable) // 2)][
                : len(usable)
            ]
        for value in dict.fromkeys(usable):
            label = getattr(value, "__name__", value)
            pairs.append(pytest.param(method, value, id=f"{label}-{name}", marks=marks(name)))
    return pytest.mark.parametrize(("method", argument), pairs)


each_method = pytest.mark.parametrize("method", table(METHODS))
each_plain_method = pytest.mark.parametrize(
    "method", table(name for name, method in METHODS.items() if not method.opaque)
)
each_opaque_method = pytest.mark.parametrize(
    "method", table(name for name, method in METHODS.items() if method.opaque)
)


def run(
    optimizer: optax.GradientTransformation,
    params: Any,
    gradient: Callable[[Any], Any],
    num_updates: int,
    state: Any = None,
) -> tuple[Any, Any]:
    """Return params and state after some updates inside one compiled loop, from `state` if given.

    The gradient function is also given as `grad_fn`, which methods that do not need it ignore.
    """
    state = jax.jit(optimizer.init)(params) if state is None else state
    return _loop(optimizer, gradient, num_updates, params, state)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _loop(
    optimizer: optax.GradientTransformation,
    gradient: Callable[[Any], Any],
    num_updates: int,
    params: Any,
    state: Any,
) -> tuple[Any, Any]:
    def update(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        return step(optimizer, *carry, gradient), None

    return jax.lax.scan(update, (params, state), length=num_updates)[0]


def step(
    optimizer: optax.GradientTransformation,
    params: Any,
    state: Any,
    gradient: Callable[[Any], Any],
) -> tuple[Any, Any]:
    """Return params and state after one update."""
    optimizer = optax.with_extra_args_support(optimizer)
    updates, state = optimizer.update(gradient(params), state, params, grad_fn=gradient)
    return optax.apply_updates(params, updates), state


def answer(
    optimizer: optax.GradientTransformation,
    params: Any,
    gradient: Callable[[Any], Any],
    num_updates: int,
) -> Any:
    """Return what `eval_params` reads after some updates."""
    params, state = run(optimizer, params, gradient, num_updates)
    return ux.eval_params(state, params)
