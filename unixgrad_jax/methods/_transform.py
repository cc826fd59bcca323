"""What every method's optax transform does around its update."""

import jax
import jax.numpy as jnp
import optax

from unixgrad_jax import _trees
from unixgrad_jax._types import Gradient, Params


def check_update(updates: Gradient, params: Params | None) -> Params:
    """Return the params of an update, checked against its gradient.

    Raises:
        ValueError: if there are none, or the gradient has another structure or other shapes.
    """
    if params is None:
        raise ValueError(
            "this optimizer needs the params: call update(gradient, state, params). "
            "They are the point where the gradient was taken."
        )
    _trees.check_same_structure("the gradient", updates, params)
    return params


def check_not_masked(params: Params) -> None:
    """Check that no part of the params is hidden by `optax.masked` or `optax.partition`.

    Raises:
        ValueError: if one is: then a gradient at another point cannot be asked for.
    """
    nodes = jax.tree.leaves(params, is_leaf=lambda node: isinstance(node, optax.MaskedNode))
    if any(isinstance(node, optax.MaskedNode) for node in nodes):
        raise ValueError(
            "opaque mode cannot evaluate grad_fn on masked params. Inside optax.masked or "
            "optax.partition use the half-step mode: opaque=False."
        )


def displacement(query: Params, params: Params) -> Params:
    """Return query − params in the dtypes of params: `optax.apply_updates` then reaches query."""
    return jax.tree.map(
        lambda q, p: (q - jnp.asarray(p, q.dtype)).astype(_trees.float_dtype(p)), query, params
    )
