"""Constraint sets with their mirror maps."""

from unixgrad_jax.geometries._balls import L2Ball
from unixgrad_jax.geometries._base import Euclidean, FullSpace, Geometry
from unixgrad_jax.geometries._box import Box, EntropicBox
from unixgrad_jax.geometries._capped_simplex import CappedSimplex
from unixgrad_jax.geometries._combinators import Batched, Product
from unixgrad_jax.geometries._custom import FromProjection, Unconstrained
from unixgrad_jax.geometries._entropic_l1_ball import EntropicL1Ball
from unixgrad_jax.geometries._groups import GroupBall
from unixgrad_jax.geometries._kinds import has_penalty, is_euclidean
from unixgrad_jax.geometries._l1_ball import L1Ball
from unixgrad_jax.geometries._monotone import MonotoneBox
from unixgrad_jax.geometries._norm_penalties import GroupNorm, NuclearNorm
from unixgrad_jax.geometries._penalized import Penalized
from unixgrad_jax.geometries._penalties import ElasticNet, L1Norm, Penalty, SquaredL2Norm
from unixgrad_jax.geometries._pnorm import PNormBall
from unixgrad_jax.geometries._register import frozen_data, register
from unixgrad_jax.geometries._shifted_entropy import ShiftedEntropySimplex
from unixgrad_jax.geometries._simplex import EntropicSimplex, Simplex
from unixgrad_jax.geometries._spectrahedra import EntropicSpectrahedron, Spectrahedron
from unixgrad_jax.geometries._spectral import NuclearBall, SpectralBall
from unixgrad_jax.geometries._transport import Birkhoff, TransportPolytope
from unixgrad_jax.geometries._weighted import check_weighted_projection, project_weighted

__all__ = [
    "Batched",
    "Birkhoff",
    "Box",
    "CappedSimplex",
    "ElasticNet",
    "EntropicBox",
    "EntropicL1Ball",
    "EntropicSimplex",
    "EntropicSpectrahedron",
    "Euclidean",
    "FromProjection",
    "FullSpace",
    "Geometry",
    "GroupBall",
    "GroupNorm",
    "L1Ball",
    "L1Norm",
    "L2Ball",
    "MonotoneBox",
    "NuclearBall",
    "NuclearNorm",
    "PNormBall",
    "Penalized",
    "Penalty",
    "Product",
    "ShiftedEntropySimplex",
    "Simplex",
    "Spectrahedron",
    "SpectralBall",
    "SquaredL2Norm",
    "TransportPolytope",
    "Unconstrained",
    "check_weighted_projection",
    "frozen_data",
    "has_penalty",
    "is_euclidean",
    "project_weighted",
    "register",
]
