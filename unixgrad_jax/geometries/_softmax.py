"""Log-weights that sum to one over a whole tree: what the entropic geometries share."""

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Params


def log_weights(shares: Params) -> Params:
    """Return log v, with 0 taken as the smallest normal number: no step returns from −∞."""

    def log(share: Array) -> Array:
        tiny = jnp.finfo(share.dtype).tiny
        return jnp.log(jnp.where((share >= 0) & (share < tiny), tiny, share))

    return jax.tree.map(log, shares)


def log_softmax(logits: Params) -> Params:
    """Return v − log Σ exp v; `logits` has leaves of one dtype."""
    top, partition = _log_partition(logits)
    log_partition = jnp.log(partition)
    return jax.tree.map(lambda v: v - top - log_partition, logits)


def softmax(logits: Params, total: Array) -> Params:
    """Return total·exp v / Σ exp v; `logits` has leaves of one dtype."""
    top, partition = _log_partition(logits)
    scale = total / partition
    return jax.tree.map(lambda v: scale * jnp.exp(v - top), logits)


def above_least(gradient: Gradient) -> Gradient:
    """Return g − min g: the same functional on a simplex, without what all entries share."""
    wide = _trees.unify(gradient)
    least = lax.stop_gradient(_trees.least(wide, _trees.wide_dtype(wide)))
    return jax.tree.map(lambda g: g - least, wide)


def half_range(gradient: Gradient) -> Array:
    """Return (max g − min g)/2, the dual of ‖·‖₁ on vectors whose entries sum to 0."""
    wide = _trees.unify(gradient)
    dtype = _trees.wide_dtype(wide)
    if not _trees.size(wide):
        return jnp.zeros((), dtype)
    return _trees.keep_nan((_trees.largest(wide, dtype) - _trees.least(wide, dtype)) / 2, wide)


def _log_partition(logits: Params) -> tuple[Array, Array]:
    """Return (m, Σ exp(vᵢ − m)) with m = max vᵢ."""
    dtype = _trees.wide_dtype(logits)
    top = lax.stop_gradient(_trees.largest(logits, dtype))
    return top, _trees.total(jax.tree.map(lambda v: jnp.exp(v - top), logits), dtype)
