"""Independent minibatches of arrays, as a sampler for `solve`."""

import dataclasses

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Key, PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Minibatches:
    """A sampler `key -> batch` over a pytree of arrays, itself a pytree; see `minibatches`."""

    data: PyTree
    batch_size: int = dataclasses.field(metadata={"static": True})

    def __call__(self, key: Key) -> PyTree:
        rows = _trees.shape(jax.tree.leaves(self.data)[0])[0]
        chosen = jax.random.randint(key, (self.batch_size,), 0, rows)
        return jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0), self.data)


def minibatches(data: PyTree, batch_size: int) -> Minibatches:
    """Make a sampler of minibatches for `solve`.

    Each call draws `batch_size` rows independently and uniformly, with replacement, so that the
    gradient of a mean over the batch is an unbiased estimate of that over the data. The sampler
    is a pytree with the data as leaves: it can be vmapped over, and new data of the same shapes
    compile nothing.

    Args:
        data: a pytree of arrays that share their leading axis, the rows.
        batch_size: the number of rows of a batch, ≥ 1.

    Returns:
        A callable from a PRNG key to a pytree like `data` with leading axis `batch_size`.

    Raises:
        ValueError: if there are no rows, leading axes differ, or `batch_size` is no integer
            of at least 1.

    Example:
        >>> import jax, jax.numpy as jnp, unixgrad_jax as ux
        >>> sampler = ux.minibatches((jnp.zeros((100, 3)), jnp.zeros(100)), batch_size=5)
        >>> jax.tree.map(jnp.shape, sampler(jax.random.key(0)))
        ((5, 3), (5,))
    """
    data = jax.tree.map(jnp.asarray, data)
    lengths = {_trees.shape(leaf)[:1] for leaf in jax.tree.leaves(data)}
    if len(lengths) != 1 or not min(lengths) or min(lengths)[0] < 1:
        raise ValueError(
            "data must be a pytree of arrays that share a leading axis of at least one row, "
            f"but its leaves have shapes {[_trees.shape(leaf) for leaf in jax.tree.leaves(data)]}."
        )
    _validation.check_counts(batch_size=batch_size)
    return Minibatches(data, int(batch_size))
