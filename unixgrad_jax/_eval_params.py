"""Read a method's answer out of any optimizer state that contains its state."""

from typing import Any

import jax
import optax

from unixgrad_jax import _trees
from unixgrad_jax._types import Params
from unixgrad_jax.methods import UniXGradState

MethodState = UniXGradState


def eval_params(opt_state: optax.OptState, params: Params) -> Params:
    """Return the method's answer: for UniXGrad the weighted average x̄, a point of K.

    The state is found by its type through `optax.chain`, `partition`, `masked`, `MultiSteps`,
    `inject_hyperparams` and any other wrapper whose state is a pytree. Where a wrapper hides part
    of the params from the method, that part is returned as it is in `params`.

    Args:
        opt_state: an optimizer state that contains exactly one method state.
        params: the current params; they give structure and dtypes.

    Raises:
        ValueError: if there is no method state in `opt_state`, or several.

    Example:
        >>> import jax.numpy as jnp, optax, unixgrad_jax as ux
        >>> optimizer = optax.chain(optax.clip_by_global_norm(1.0), ux.unixgrad(ux.Simplex()))
        >>> params = jnp.array([0.25, 0.75])
        >>> ux.eval_params(optimizer.init(params), params)
        Array([0.25, 0.75], dtype=float32)
    """
    states = method_states(opt_state)
    if len(states) != 1:
        found = "none" if not states else f"{len(states)} of them"
        raise ValueError(
            "eval_params needs an optimizer state with exactly one UniXGradState inside, "
            f"but found {found} in a {type(opt_state).__name__}."
        )
    return output_point(states[0], params)


def method_states(opt_state: Any) -> list[MethodState]:
    """Return every method state inside `opt_state`, in tree order."""
    nodes = jax.tree.leaves(opt_state, is_leaf=lambda node: isinstance(node, MethodState))
    return [node for node in nodes if isinstance(node, MethodState)]


def output_point(state: MethodState, params: Params) -> Params:
    """Return the state's average in the dtypes of params; masked parts come from params."""

    def read(average: Any, own: Any) -> Any:
        return own if isinstance(average, optax.MaskedNode) else _trees.cast_like(average, own)

    return jax.tree.map(
        read, state.average, params, is_leaf=lambda node: isinstance(node, optax.MaskedNode)
    )
