"""`lax.while_loop` for states of many scalars."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax._types import Array


def while_loop(condition: Callable[[Any], Array], body: Callable[[Any], Any], initial: Any) -> Any:
    """Return what `lax.while_loop` does, but carry the scalars of the state in one array a dtype.

    On CPU each scalar of a loop's state is a kernel of its own, and XLA hands over part of them to
    another thread where more than a few are ready at once: that takes longer than a whole
    iteration of a small problem. One array is one kernel.
    """
    leaves, structure = jax.tree.flatten(initial)
    kinds = [_kind(leaf) for leaf in leaves]

    def pack(state: Any) -> tuple[dict[str, Array], list[Any]]:
        groups: dict[str, list[Array]] = {}
        others = []
        for leaf, kind in zip(jax.tree.leaves(state), kinds, strict=True):
            if kind is None:
                others.append(leaf)
            else:
                same = leaf.astype(kind) if leaf.dtype == jnp.bool_ else leaf
                groups.setdefault(kind, []).append(same)
        return {kind: jnp.stack(scalars) for kind, scalars in groups.items()}, others

    def unpack(packed: tuple[dict[str, Array], list[Any]]) -> Any:
        scalars = {kind: iter(jnp.unstack(array)) for kind, array in packed[0].items()}
        others = iter(packed[1])
        return structure.unflatten(
            next(others) if kind is None else next(scalars[kind]).astype(leaf.dtype)
            for leaf, kind in zip(leaves, kinds, strict=True)
        )

    packed = lax.while_loop(
        lambda packed: condition(unpack(packed)),
        lambda packed: pack(body(unpack(packed))),
        pack(initial),
    )
    return unpack(packed)


def _kind(leaf: Array) -> str | None:
    """Return the dtype to carry a scalar in, None for what is carried as it is."""
    name = str(leaf.dtype)
    if leaf.shape or name not in ("bool", "int32", "float32", "float64"):
        return None
    return "int32" if name == "bool" else name
