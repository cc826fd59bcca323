"""What the full solves do with their arguments before anything is compiled."""

import numbers
from collections.abc import Callable

import jax
import numpy as np

from unixgrad_jax import _trees
from unixgrad_jax._types import Params
from unixgrad_jax.geometries import Geometry


def check_args(args: tuple) -> None:
    """Check that the further arguments of an objective come as a tuple.

    Raises:
        TypeError: if they do not.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"args must be a tuple, not {type(args).__name__}: write args=(data,).")


def start(geometry: Geometry, params: Params | None, *, oracle: bool = False) -> Params:
    """Return the params to start from, floating and strongly typed.

    Args:
        geometry: the set.
        params: as the user gave them.
        oracle: whether its linear minimization oracle is needed.

    Raises:
        ValueError: if the geometry has no points of this shape, or no oracle.
    """
    leaves = jax.tree.leaves(params)
    if params is None or any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        params = geometry.interior_point(params)
    else:
        params = _trees.as_floating(params)
    geometry.check(params, oracle=oracle)
    return params


def as_pytree(name: str, function: Callable) -> Callable:
    """Return the function as a pytree, so that `jax.jit` takes it as an argument.

    Functions that are pytrees of arrays already stay as they are; any other is static, compared
    by equality.
    """
    if not callable(function):
        raise TypeError(f"{name} must be callable, not {function!r}.")
    array_like = (jax.Array, np.ndarray, np.generic, numbers.Number)
    if all(isinstance(leaf, array_like) for leaf in jax.tree.leaves(function)):
        return function
    try:
        hash(function)
    except TypeError:
        raise TypeError(
            f"{name} must be hashable, or a pytree of arrays such as jax.tree_util.Partial, for a "
            f"second call to reuse the compiled code; {type(function).__name__} is neither."
        ) from None
    return jax.tree_util.Partial(function)
