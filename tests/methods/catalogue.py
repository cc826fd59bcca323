"""The table of methods: whoever adds a method adds it here, and every law is tested on it."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest

import unixgrad_jax as ux

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
    """

    make: Callable[..., optax.GradientTransformationExtraArgs]
    hyperparameters: dict[str, float]
    period: int
    opaque: bool = False


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
}

VARIANTS = {"unixgrad_without_offset"}
"""Methods that differ little from another one: left out by default, like float64."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests on this method."""
    return [pytest.mark.slow] if name in VARIANTS else []


def table(names: Iterable[str]) -> list[Any]:
    """Return test parameters for methods of the table."""
    return [pytest.param(METHODS[name], id=name, marks=marks(name)) for name in names]


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
