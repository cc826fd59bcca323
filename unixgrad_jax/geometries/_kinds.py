"""What kind of geometry one is, through the combinators."""

from collections.abc import Iterator

import jax

from unixgrad_jax.geometries._base import Euclidean, Geometry
from unixgrad_jax.geometries._combinators import Batched, Product
from unixgrad_jax.geometries._penalized import Penalized


def components(geometry: Geometry) -> Iterator[Geometry]:
    """Yield the geometries that combinators put together, or the geometry itself."""
    if isinstance(geometry, Product):
        for part in jax.tree.leaves(geometry.parts, is_leaf=lambda x: isinstance(x, Geometry)):
            yield from components(part)
    elif isinstance(geometry, Batched):
        yield from components(geometry.geometry)
    else:
        yield geometry


def is_euclidean(geometry: Geometry) -> bool:
    """Return whether R = ½‖·‖₂²: a step is then a projection, with a penalty a proximal step."""
    bases = (k.base if isinstance(k, Penalized) else k for k in components(geometry))
    return all(isinstance(base, Euclidean) for base in bases)


def has_penalty(geometry: Geometry) -> bool:
    """Return whether a penalty h is part of the geometry."""
    return any(isinstance(k, Penalized) for k in components(geometry))
