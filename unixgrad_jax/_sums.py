"""Sums of arrays, several entries at a time."""

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from unixgrad_jax._types import Array

STRIPS = 4
"""How many equal parts an array is cut into."""
LEAST, MOST = 64, 4095
"""The sizes of the arrays that are: below there is nothing to gain, above XLA takes several entries
at once itself."""


def sum_of(values: Array) -> Array:
    """Return the sum of all entries, in the dtype of the array; see `sums_of`."""
    return sums_of(values)[0]


def sums_of(*arrays: Array) -> Array:
    """Return the sum of each of several arrays of one shape, in one pass, as a vector.

    XLA on CPU adds up a small array one entry after the other, each addition waiting for the last.
    The sum of strips of the array takes several at once: half the time of a small problem's
    iteration.
    """
    values = arrays[0]
    if LEAST <= values.size <= MOST and not any(map(_is_sharded, arrays)):
        return _sums_of_strips(*map(jnp.ravel, arrays))
    return jnp.stack([jnp.sum(array, dtype=array.dtype) for array in arrays])


@jax.custom_jvp
def _sums_of_strips(*vectors: Array) -> Array:
    return _unless_batched(*vectors)


@_sums_of_strips.defjvp
def _sums_of_strips_jvp(
    primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[Array, Array]:
    return _sums_of_strips(*primals), jnp.stack([jnp.sum(tangent) for tangent in tangents])


@custom_vmap
def _unless_batched(*vectors: Array) -> Array:
    length = vectors[0].size // STRIPS

    def split(vector: Array) -> tuple[Array, Array]:
        first, *others, rest = jnp.split(vector, [length * i for i in range(1, STRIPS + 1)])
        return sum(others, first), rest

    strips, rests = zip(*map(split, vectors), strict=True)
    return _sum_rows(jnp.stack(strips)) + _sum_rows(jnp.stack(rests))


@_unless_batched.def_vmap
def _batched(size: int, are_batched: list[bool], *vectors: Array) -> tuple[Array, bool]:
    """Sum each row of a batch the plain way, which is faster there."""
    sums = [
        _sum_rows(vector) if batched else jnp.broadcast_to(_sum_rows(vector), size)
        for vector, batched in zip(vectors, are_batched, strict=True)
    ]
    return jnp.stack(sums, axis=1), True


def _sum_rows(rows: Array) -> Array:
    return jnp.sum(rows, axis=-1, dtype=rows.dtype)


def _is_sharded(values: Array) -> bool:
    """Return whether an axis of the array is sharded explicitly: strips would not fit its parts."""
    return any(axis is not None for axis in jax.typeof(values).sharding.spec)
