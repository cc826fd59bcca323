"""Params of every kind of tree, and the training loops of flax and equinox."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.training.train_state import TrainState

import unixgrad_jax as ux
from tests.methods.catalogue import Method, each_method, each_method_with, run, step

BALL = ux.L2Ball(1.0)
ENTRIES = np.array([0.1, -0.4, 0.3, 0.2], np.float32)


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weights: Any
    offset: Any


def trees(x: Any) -> dict[str, Any]:
    """Return trees that hold the four entries of a vector, in their order."""
    return {
        "dict": {"a": x[:2], "b": x[2:]},
        "list": [x[:1], x[1:]],
        "tuple": (x[:3].reshape(3, 1), x[3:]),
        "NamedTuple": Pair(x[:2].reshape(1, 2), {"inner": x[2:]}),
        "dataclass": Layer(x[:3], [x[3:]]),
        "scalars": (x[0], x[1], x[2], x[3]),
        "None leaves": {"a": x[:2], "b": None, "c": [None, x[2:]]},
        "empty subtrees": {"a": {}, "b": (x, ()), "c": jnp.zeros((0, 3))},
        "Python floats": {"a": float(x[0]), "b": [float(x[1]), x[2:]]},
        "NumPy arrays": [np.asarray(x[:2]), np.asarray(x[2:])],
    }


EMPTY = {str(tree): tree for tree in ({}, (), {"a": None}, [{}, ()])}


def towards_two(params: Any) -> Any:
    return jax.tree.map(lambda x: x - 2.0, params)


@each_method_with("name", list(trees(ENTRIES)))
def test_a_tree_gives_the_run_of_its_vector(method: Method, name: str) -> None:
    params = trees(jnp.asarray(ENTRIES))[name]
    last, state = run(method.make(BALL), params, towards_two, 5)
    read = ux.eval_params(state, last)
    assert jax.tree.structure(last) == jax.tree.structure(read) == jax.tree.structure(params)
    for got, expected in zip((last, read), vector_run(method.make), strict=True):
        entries = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(got)])
        np.testing.assert_allclose(entries, expected, atol=1e-6)


@functools.cache
def vector_run(make: Callable) -> tuple[jax.Array, jax.Array]:
    last, state = run(make(BALL), jnp.asarray(ENTRIES), towards_two, 5)
    return last, ux.eval_params(state, last)


@each_method_with("name", list(EMPTY))
def test_a_tree_without_leaves_stays_as_it_is(method: Method, name: str) -> None:
    optimizer, params = method.make(BALL), EMPTY[name]
    state = optimizer.init(params)
    updates, state = optimizer.update(params, state, params, grad_fn=lambda p: p)
    assert optax.apply_updates(params, updates) == params
    assert ux.eval_params(state, params) == params


@each_method
def test_integer_params_have_float_updates(method: Method) -> None:
    optimizer, params = method.make(ux.Box(-1.0, 1.0)), {"a": 0.5, "b": 1}
    incoming = {"a": jnp.asarray(1.0), "b": jnp.asarray(1.0)}
    updates, state = optimizer.update(
        incoming, optimizer.init(params), params, grad_fn=lambda _: incoming
    )
    assert updates["b"].dtype == ux.eval_params(state, params)["b"].dtype == jnp.result_type(float)


INPUTS = jax.random.normal(jax.random.key(0), (16, 3))
LABELS = INPUTS @ jnp.array([[0.6], [-0.3], [0.1]]) + 0.05


@each_method
def test_a_flax_linen_train_state_trains(method: Method) -> None:
    model = nn.Dense(1)
    variables = model.init(jax.random.key(1), INPUTS)

    def loss(params: Any) -> jax.Array:
        return jnp.mean((model.apply(params, INPUTS) - LABELS) ** 2)

    optimizer = method.make(BALL)
    train_state = TrainState.create(apply_fn=model.apply, params=variables, tx=optimizer)
    if method.opaque:  # its apply_gradients hands no extra arguments on
        optimizer = bind(optimizer, jax.grad(loss))
        train_state = train_state.replace(tx=optimizer)
    train = jax.jit(lambda s: s.apply_gradients(grads=jax.grad(loss)(s.params)))
    for _ in range(60):
        train_state = train(train_state)
    read = ux.eval_params(train_state.opt_state, train_state.params)
    assert float(loss(read)) < 0.1 * float(loss(variables))
    assert float(BALL.violation(read)) <= 1e-6


def bind(optimizer: Any, grad_fn: Any) -> optax.GradientTransformation:
    """Return the transform with its gradient function given once and for all."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        return optimizer.update(updates, state, params, grad_fn=grad_fn)

    return optax.GradientTransformation(optimizer.init, update)


@each_method_with(
    "part", ["all", "kernel"], lambda method, part: not (method.opaque and part == "kernel")
)
def test_a_flax_nnx_optimizer_trains(method: Method, part: str) -> None:
    """Without keyword arguments; also one block of a partition, read through flax's variables."""
    model = nnx.Linear(3, 1, rngs=nnx.Rngs(1))
    graph = nnx.graphdef(model)

    def loss(model: nnx.Linear) -> jax.Array:
        return jnp.mean((model(INPUTS) - LABELS) ** 2)

    def loss_of_state(state: Any) -> jax.Array:
        return loss(nnx.merge(graph, state))

    optimizer: Any = method.make(BALL)
    if method.opaque:
        optimizer = bind(optimizer, jax.grad(loss_of_state))
    if part == "kernel":
        pytest.importorskip("flax", "0.12", reason="flax's optimizer could not hold masks before")
        optimizer = optax.partition({"set": optimizer, "free": optax.adam(0.05)}, block)
    training = nnx.Optimizer(model, optimizer, wrt=nnx.Param)

    @nnx.jit
    def train(model: nnx.Linear, training: nnx.Optimizer) -> None:
        training.update(model, nnx.grad(loss)(model))

    before = float(loss(model))
    for _ in range(300):
        train(model, training)
    params = nnx.state(model, nnx.Param)
    read = ux.eval_params(training.opt_state, params)
    assert jax.tree.structure(read) == jax.tree.structure(params)
    assert float(loss_of_state(read)) < 0.1 * before
    constrained = read if part == "all" else read["kernel"]
    assert float(BALL.violation(jax.tree.leaves(constrained))) <= 1e-6


def block(params: Any) -> Any:
    def label(path: Any, _: Any) -> str:
        return "set" if "kernel" in jax.tree_util.keystr(path) else "free"

    return jax.tree_util.tree_map_with_path(label, params)


@each_method
def test_a_filtered_equinox_module_trains(method: Method) -> None:
    with jax.debug_key_reuse(False):  # which older releases of jax see in a fresh key's split
        model = eqx.nn.MLP(3, 1, 4, depth=0, key=jax.random.key(1))  # convex in its params
    optimizer = method.make(ux.L2Ball(2.0))

    def loss(model: eqx.nn.MLP) -> jax.Array:
        return jnp.mean((jax.vmap(model)(INPUTS) - LABELS) ** 2)

    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss_of_params(params: Any) -> jax.Array:
        return loss(eqx.combine(params, static))

    @eqx.filter_jit
    def train(params: Any, state: Any) -> Any:
        return step(optimizer, params, state, jax.grad(loss_of_params))

    state = jax.jit(optimizer.init)(params)
    start = float(loss(model))
    for _ in range(300):
        params, state = train(params, state)
    read = ux.eval_params(state, params)
    assert float(ux.L2Ball(2.0).violation(read)) <= 1e-6
    assert float(loss(eqx.combine(read, static))) < 0.1 * start
