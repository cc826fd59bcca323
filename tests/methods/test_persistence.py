"""States saved and loaded between the two halves of an iteration go on bit for bit."""

import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint
import pytest

import unixgrad_jax as ux
from tests.methods.catalogue import START, Method, each_method_with, gradient, run

BALL = ux.L1Ball(1.0)


def by_pickle(tree: Any, folder: pathlib.Path) -> Any:
    path = folder / "state.pickle"
    path.write_bytes(pickle.dumps(tree))
    return pickle.loads(path.read_bytes())


def by_msgpack(tree: Any, folder: pathlib.Path) -> Any:
    path = folder / "state.msgpack"
    path.write_bytes(flax.serialization.to_bytes(tree))
    empty = jax.tree.map(jnp.zeros_like, tree)
    return flax.serialization.from_bytes(empty, path.read_bytes())


def by_orbax(tree: Any, folder: pathlib.Path) -> Any:
    with orbax.checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "state", tree)
        checkpointer.wait_until_finished()
        return checkpointer.restore(folder / "state", jax.eval_shape(lambda: tree))


@each_method_with("saved", [by_pickle, by_msgpack, by_orbax])
@pytest.mark.filterwarnings("default")  # of the libraries that save
def test_a_saved_run_goes_on_bit_for_bit(
    method: Method, saved: Callable[[Any, pathlib.Path], Any], tmp_path: pathlib.Path
) -> None:
    optimizer = method.make(BALL)
    before = run(optimizer, START, gradient, 3)
    loaded = saved(before, tmp_path)
    assert jax.tree.structure(loaded) == jax.tree.structure(before)
    jax.tree.map(np.testing.assert_array_equal, loaded, before)
    went_on = run(optimizer, loaded[0], gradient, 3, loaded[1])
    jax.tree.map(
        np.testing.assert_array_equal, went_on, run(optimizer, before[0], gradient, 3, before[1])
    )
