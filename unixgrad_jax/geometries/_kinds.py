"""What kind of geometry one is, through the combinators."""

import jax

from unixgrad_jax.geometries._base import Euclidean, Geometry
from unixgrad_jax.geometries._combinators import Batched, Product
from unixgrad_jax.geometries._penalized import Penalized


def is_euclidean(geometry: Geometry) -> bool:
    """Return whether R = ½‖·‖₂²: a step is then a projection, with a penalty a proximal step."""
    match geometry:
        case Product():
            parts = jax.tree.leaves(geometry.parts, is_leaf=lambda node: isinstance(node, Geometry))
            return all(map(is_euclidean, parts))
        case Batched():
            return is_euclidean(geometry.geometry)
        case Penalized():
            return is_euclidean(geometry.base)
    return isinstance(geometry, Euclidean)


def has_penalty(geometry: Geometry) -> bool:
    """Return whether a penalty h is part of the geometry."""
    match geometry:
        case Product():
            parts = jax.tree.leaves(geometry.parts, is_leaf=lambda node: isinstance(node, Geometry))
            return any(map(has_penalty, parts))
        case Batched():
            return has_penalty(geometry.geometry)
    return isinstance(geometry, Penalized)
