"""Methods under the transformations of JAX: vmap, and derivatives of unrolled loops."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import unixgrad_jax as ux
from tests import problems
from tests.methods.catalogue import (
    START,
    Method,
    answer,
    each_method,
    each_method_with,
    gradient,
    step,
)


def takes(method: Method, name: str) -> bool:
    return not (method.euclidean and name == "entropic_simplex")


@each_method_with("name", ["ball", "entropic_simplex"], takes)
def test_vmap_over_starts_sets_and_hyperparameters_is_a_loop(method: Method, name: str) -> None:
    sizes, values = jnp.array([0.5, 1.0, 3.0]), jnp.array([1.0, 2.0, 0.7])
    hyperparameter = next(iter(method.hyperparameters))
    starts = jax.tree.map(lambda leaf: leaf[None] * sizes.reshape(3, *leaf.ndim * [1]), START)
    kind = type(problems.GEOMETRIES[name])

    def solution(size: jax.Array, value: jax.Array, params: Any) -> Any:
        return answer(method.make(kind(size), **{hyperparameter: value}), params, gradient, 6)

    batch = jax.jit(jax.vmap(solution))(sizes, values, starts)
    alone = jax.jit(solution)
    for i in range(3):
        own = alone(sizes[i], values[i], jax.tree.map(lambda leaf, i=i: leaf[i], starts))
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=2e-5), batch, own)


@each_method_with("name", ["ball", "simplex", "entropic_simplex"], takes)
def test_derivatives_of_an_unrolled_loop_are_finite_differences(
    method: Method, name: str, x64: None
) -> None:
    """In the start, the target, the size of the set and a hyperparameter at once."""
    kind, target = type(problems.GEOMETRIES[name]), jnp.array([0.9, 0.2, -0.4])
    hyperparameter = next(iter(method.hyperparameters))

    def solution(theta: jax.Array) -> jax.Array:
        optimizer = method.make(kind(theta[0]), **{hyperparameter: theta[1]})
        params = jnp.array([0.3, 0.4, 0.3]) + jnp.array([1.0, -1.0, 0.0]) * theta[2]
        state = optimizer.init(params)
        for _ in range(2 * method.period):
            params, state = step(optimizer, params, state, lambda x: x - theta[3] * target)
        return jnp.sum(jnp.arange(1.0, 4.0) * ux.eval_params(state, params))

    theta = jnp.array([1.1, 0.8, 0.05, 1.2])
    value = jax.jit(solution)
    derivatives = jax.jit(jax.grad(solution))(theta)
    assert np.isfinite(derivatives).all()
    h = 1e-6
    differences = [(value(theta + h * e) - value(theta - h * e)) / (2 * h) for e in jnp.eye(4)]
    np.testing.assert_allclose(derivatives, jnp.stack(differences), rtol=1e-6, atol=1e-8)


@each_method
def test_derivatives_are_finite_where_nothing_moves(method: Method) -> None:
    """At zero gradients, where the root of a zero sum of squares has an infinite slope."""

    def solution(scale: jax.Array) -> jax.Array:
        optimizer, params = method.make(ux.L2Ball(1.0)), jnp.array([0.5, 0.25])
        state = optimizer.init(params)
        for _ in range(2 * method.period):
            params, state = step(optimizer, params, state, lambda x: scale * x)
        return jnp.sum(ux.eval_params(state, params))

    assert np.isfinite(jax.jit(jax.grad(solution))(0.0))
