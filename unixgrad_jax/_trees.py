"""Arithmetic on a pytree seen as one vector, with the dtype rules of the project.

Every computation runs in the widest dtype of the tree's leaves, and at least in float32;
results go back to the dtype of each leaf.
"""

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from unixgrad_jax._sums import sum_of, sums_of
from unixgrad_jax._types import Array, Params, Scalar


def wide_dtype(tree: Params) -> np.dtype:
    """Return the dtype to compute in: the widest of the leaves, at least float32."""
    return jnp.result_type(jnp.float32, *(float_dtype(leaf) for leaf in jax.tree.leaves(tree)))


def float_dtype(leaf: Any) -> np.dtype:
    """Return the floating dtype of one leaf; integers become JAX's default float.

    Raises:
        TypeError: if the leaf is complex, or not numeric.
    """
    numeric = isinstance(leaf, numbers.Number)
    dtype = jnp.result_type(leaf) if numeric else getattr(leaf, "dtype", type(leaf).__name__)
    if isinstance(dtype, str):
        raise TypeError(
            f"params must be arrays or real numbers, but one leaf is a {dtype}: {leaf!r}."
        )
    if jnp.issubdtype(dtype, jnp.floating):
        return jax.dtypes.canonicalize_dtype(dtype)
    if jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.bool_):
        return jnp.result_type(float)
    raise TypeError(
        f"params and gradients must be real numbers, but one leaf has dtype {dtype}. "
        "Split complex ones into their real and imaginary parts."
    )


def as_floating(tree: Params) -> Params:
    """Return the tree with every leaf a strongly typed floating-point array."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float_dtype(leaf)), tree)


def widen(tree: Params) -> Params:
    """Return the tree with every leaf in its own dtype, but at least in float32."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, wide_dtype(leaf)), tree)


def as_dtype(tree: Params, dtype: DTypeLike) -> Params:
    """Return the tree with every leaf an array of one dtype."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)


def unify(tree: Params) -> Params:
    """Return the tree with every leaf in its `wide_dtype`, ready to be one vector."""
    return as_dtype(tree, wide_dtype(tree))


def cast_like(tree: Params, like: Params) -> Params:
    """Return the tree with every leaf in the floating dtype of the matching leaf of `like`."""
    return jax.tree.map(lambda leaf, to: jnp.asarray(leaf, float_dtype(to)), tree, like)


def total(tree: Params, dtype: DTypeLike) -> Array:
    """Return the sum of all entries, accumulated in `dtype`."""
    sums = [sum_of(jnp.asarray(leaf, dtype)) for leaf in jax.tree.leaves(tree)]
    return sum(sums[1:], sums[0]) if sums else jnp.zeros((), dtype)


def totals(trees: list[Params], dtype: DTypeLike) -> tuple[Array, ...]:
    """Return the `total` of each of several trees of one structure, in one pass."""
    sums = jax.tree.leaves(
        jax.tree.map(
            lambda *leaves: sums_of(*(jnp.asarray(leaf, dtype) for leaf in leaves)), *trees
        )
    )
    both = sum(sums[1:], sums[0]) if sums else jnp.zeros(len(trees), dtype)
    return tuple(jnp.unstack(both))


def count(mask: Params, dtype: DTypeLike) -> Array:
    """Return the number of true entries, counted in int32, as a `dtype` scalar."""
    return total(jax.tree.map(lambda leaf: leaf.astype(jnp.int32), mask), jnp.int32).astype(dtype)


def largest(tree: Params, dtype: DTypeLike) -> Array:
    """Return the largest entry, −∞ where there is none; see `keep_nan`.

    The standard reduction: XLA runs no other one across the devices of a sharded array.
    """
    tops = [jnp.max(jnp.asarray(leaf, dtype), initial=-jnp.inf) for leaf in jax.tree.leaves(tree)]
    return jnp.max(jnp.stack(tops)) if tops else jnp.full((), -jnp.inf, dtype)


def least(tree: Params, dtype: DTypeLike) -> Array:
    """Return the smallest entry, +∞ where there is none; see `keep_nan`."""
    return -largest(jax.tree.map(jnp.negative, tree), dtype)


def at_least(value: Array, floor: ArrayLike) -> Array:
    """Return max(v, floor), NaN for NaN; see `keep_nan`."""
    return jnp.where(value <= floor, floor, value)


def clip(value: Array, low: ArrayLike, high: ArrayLike) -> Array:
    """Return min(max(v, low), high), NaN for NaN; see `keep_nan`."""
    return jnp.where(value < low, low, jnp.where(value > high, high, value))


def keep_nan(extreme: Array, tree: Params) -> Array:
    """Return the value, or NaN where an entry of the tree is NaN.

    XLA's maximum and minimum lose NaNs in compiled loops on CPU, from some thousand entries on.
    """
    lost = [jnp.any(jnp.isnan(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.where(jnp.any(jnp.stack(lost)), jnp.nan, extreme) if lost else extreme


def ravel(tree: Params) -> Array:
    """Return the entries of all leaves, of one dtype, as one vector in tree order."""
    leaves = jax.tree.leaves(tree)
    return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves]) if leaves else jnp.zeros(0)


def unravel(vector: Array, like: Params) -> Params:
    """Undo `ravel`."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([size(leaf) for leaf in leaves])
    parts = [
        vector[end - size(leaf) : end].reshape(shape(leaf))
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    return jax.tree.unflatten(structure, parts)


def vdot(a: Params, b: Params) -> Array:
    """Return the inner product ⟨a, b⟩ in the widest dtype of the two trees."""
    dtype = wide_dtype((a, b))
    products = jax.tree.map(lambda x, y: jnp.asarray(x, dtype) * jnp.asarray(y, dtype), a, b)
    return total(products, dtype)


def broadcast(name: str, prefix: Params, like: Params) -> Params:
    """Return a tree prefix (a scalar, say) spread over `like`: its structure, shapes, wide dtype.

    Raises:
        ValueError: if it is not a prefix of `like`, or a leaf does not broadcast; names it.
    """
    dtype = wide_dtype(like)
    try:
        full = jax.tree.broadcast(prefix, like)
    except ValueError:
        raise ValueError(
            f"{name} must be a scalar or a tree prefix of the params, whose structure is "
            f"{jax.tree.structure(like)}, not a tree of structure {jax.tree.structure(prefix)}."
        ) from None

    def spread(leaf: Any, to: Any) -> Array:
        if np.broadcast_shapes(shape(leaf), shape(to)) != shape(to):
            raise ValueError
        # Zeros like the params carry their explicit sharding, which `where` insists on.
        return jnp.broadcast_to(jnp.asarray(leaf, dtype), shape(to)) + jnp.zeros_like(to, dtype)

    try:
        return jax.tree.map(spread, full, like)
    except ValueError:
        raise ValueError(
            f"{name} must broadcast to the shapes of the params, "
            f"{jax.tree.map(shape, like)}, but has shapes {jax.tree.map(shape, prefix)}."
        ) from None


def scalar(name: str, value: Scalar, dtype: DTypeLike) -> Array:
    """Return the value as an array of shape ().

    Raises:
        ValueError: if it is an array of another shape.
    """
    if shape(value) != ():
        raise ValueError(
            f"{name} must be a scalar here, but has shape {shape(value)}. For several problems at "
            "once, map over it with jax.vmap."
        )
    return jnp.asarray(value, dtype)


def shape(leaf: Any) -> tuple[int, ...]:
    """Return the shape of an array, a Python number or a `jax.ShapeDtypeStruct`."""
    return tuple(leaf.shape) if hasattr(leaf, "shape") else np.shape(leaf)


def size(tree: Params) -> int:
    """Return the number of entries."""
    return sum(int(np.prod(shape(leaf))) for leaf in jax.tree.leaves(tree))


def check_same_structure(name: str, tree: Params, params: Params) -> None:
    """Check that `tree` has the structure and the shapes of `params`.

    Raises:
        ValueError: if it has not; the message starts with `name`.
    """
    structure, expected = jax.tree.structure(tree), jax.tree.structure(params)
    if structure != expected:
        raise ValueError(f"{name} must have the structure of params, {expected}, not {structure}.")
    for (path, leaf), (_, like) in zip(
        jax.tree_util.tree_leaves_with_path(tree),
        jax.tree_util.tree_leaves_with_path(params),
        strict=True,
    ):
        if jnp.shape(leaf) != jnp.shape(like):
            raise ValueError(
                f"{name} must have the shapes of params, but at "
                f"{jax.tree_util.keystr(path) or 'the root'} it has shape {jnp.shape(leaf)} "
                f"where params have {jnp.shape(like)}."
            )
