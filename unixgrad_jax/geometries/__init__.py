"""Constraint sets with their mirror maps."""

from unixgrad_jax.geometries._balls import L1Ball, L2Ball
from unixgrad_jax.geometries._base import Geometry
from unixgrad_jax.geometries._box import Box
from unixgrad_jax.geometries._simplex import EntropicSimplex, Simplex

__all__ = ["Box", "EntropicSimplex", "Geometry", "L1Ball", "L2Ball", "Simplex"]
