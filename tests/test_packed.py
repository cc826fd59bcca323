"""A loop whose scalars travel in one array is the loop."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from unixgrad_jax._packed import while_loop

State = dict[str, jax.Array]


def start(target: jax.Array) -> State:
    return {
        "vector": jnp.zeros(3),
        "value": jnp.asarray(target, jnp.float32),
        "best": jnp.asarray(jnp.inf, jnp.float32),
        "count": jnp.zeros((), jnp.int32),
        "odd": jnp.zeros((), jnp.bool_),
        "half": jnp.zeros((), jnp.bfloat16),
        "key": jax.random.key(0),
    }


def unfinished(state: State) -> jax.Array:
    return (state["value"] > 0.1) | state["odd"]


def halve(state: State) -> State:
    key, other = jax.random.split(state["key"])
    return {
        "vector": state["vector"] + jax.random.uniform(other, 3) * state["odd"],
        "value": state["value"] / 2,
        "best": jnp.minimum(state["best"], state["value"]),
        "count": state["count"] + 1,
        "odd": ~state["odd"],
        "half": state["half"] + 1,
        "key": key,
    }


@pytest.mark.parametrize("over", [lambda run: run, jax.vmap], ids=["one", "batch"])
def test_it_ends_where_the_plain_loop_does(over: Callable) -> None:
    targets = jnp.asarray([0.05, 1.0, 37.0])
    targets = targets if over is jax.vmap else targets[1]
    packed, plain = (
        jax.jit(over(lambda target, loop=loop: loop(unfinished, halve, start(target))))(targets)
        for loop in (while_loop, lax.while_loop)
    )
    assert jax.tree.map(lambda leaf: leaf.dtype, packed) == jax.tree.map(
        lambda leaf: leaf.dtype, plain
    )
    for name in plain.keys() - {"key"}:
        np.testing.assert_array_equal(packed[name], plain[name])
    np.testing.assert_array_equal(*(jax.random.key_data(end["key"]) for end in (packed, plain)))
