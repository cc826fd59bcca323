"""Read a method's answer out of any optimizer state that contains its state."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Params
from unixgrad_jax.methods import MethodState


def eval_params(opt_state: optax.OptState, params: Params) -> Params:
    """Return the method's answer, a point of K: for UniXGrad the weighted average x̄.

    The state is found by its type through `optax.chain`, `partition`, `masked`, `MultiSteps`,
    `inject_hyperparams` and any other wrapper whose state is a pytree. Where a wrapper hides part
    of the params from the method, that part is returned as it is in `params`; where it rearranges
    them, as `optax.flatten`, `optax.contrib.split_real_and_imaginary` and flax's optimizers do,
    that is undone.

    Args:
        opt_state: an optimizer state that contains exactly one method state. Of a partition with
            several, pass each block's own, `opt_state.inner_states[label]`, one after the other.
        params: the current params; they give structure and dtypes.

    Raises:
        ValueError: if there is no method state in `opt_state`, or several, or if it is not a state
            of these params.

    Example:
        >>> import jax.numpy as jnp, optax, unixgrad_jax as ux
        >>> optimizer = optax.chain(optax.clip_by_global_norm(1.0), ux.unixgrad(ux.Simplex()))
        >>> params = jnp.array([0.25, 0.75])
        >>> ux.eval_params(optimizer.init(params), params)
        Array([0.25, 0.75], dtype=float32)
    """
    states = _method_states(opt_state)
    if len(states) != 1:
        found = "none"
        if states:
            found = (
                f"{len(states)}: give each block's own state, such as inner_states[label], not all"
            )
        raise ValueError(
            "eval_params needs an optimizer state with exactly one method of this library inside, "
            f"but a {type(opt_state).__name__} holds {found}."
        )
    return _output_point(states[0], params)


def answer(opt_state: Any, params: Params) -> Params:
    """Return the params with the answer of every method inside `opt_state` in its place."""
    for state in _method_states(opt_state):
        params = _output_point(state, params)
    return params


def _method_states(opt_state: Any) -> list[MethodState]:
    """Return every method state inside `opt_state`, in tree order."""
    nodes = jax.tree.leaves(opt_state, is_leaf=lambda node: isinstance(node, MethodState))
    return [node for node in nodes if isinstance(node, MethodState)]


def _output_point(state: MethodState, params: Params) -> Params:
    """Return the state's answer as params: their structure, dtypes, and what was masked."""
    hidden = {
        _names(path)
        for path, node in jax.tree_util.tree_leaves_with_path(state.output, is_leaf=_is_masked)
        if _is_masked(node)
    }

    def is_shown(path: Any) -> bool:
        names = _names(path)
        return not any(names[:depth] in hidden for depth in range(len(names) + 1))

    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    shown = [is_shown(path) for path, _ in leaves]
    own = [leaf for (_, leaf), is_own in zip(leaves, shown, strict=True) if is_own]
    rest = iter(_poured_into(own, jax.tree.leaves(state.output)))
    answer = [
        next(rest) if is_own else leaf for (_, leaf), is_own in zip(leaves, shown, strict=True)
    ]
    return jax.tree.unflatten(structure, answer)


def _is_masked(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode)


def _names(path: Any) -> tuple[str, ...]:
    """Return the keys of a path, which are the same in containers of other types."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def _poured_into(leaves: list[Any], answer: list[Array]) -> list[Array]:
    """Return the entries of the answer in the shapes and dtypes of the leaves of params.

    Wrappers change what holds the entries, never their order: flax has its own boxes around
    arrays, `optax.flatten` one vector, `split_real_and_imaginary` two arrays for a complex one.
    """
    parts = [leaf for leaf in leaves for _ in range(1 + jnp.iscomplexobj(leaf))]
    expected = [_trees.shape(part) for part in parts]
    shapes = [part.shape for part in answer]
    if shapes == [(_trees.size(parts),)] != expected:
        answer = _trees.unravel(answer[0], parts)
    elif shapes != expected:
        raise ValueError(
            f"params must be those of the optimizer state, whose answer has shapes {shapes}; "
            f"those of params are {expected}. Where a wrapper hides some of them around another "
            "that flattens the rest, give optax.MaskedNode() in the place of the hidden ones."
        )
    rest = iter(answer)
    return [
        lax.complex(next(rest), next(rest))
        if jnp.iscomplexobj(leaf)
        else jnp.array(next(rest), _trees.float_dtype(leaf), copy=True)
        for leaf in leaves
    ]
