"""Universal, tuning-free convex optimization over constraint sets, for JAX and Optax."""

from unixgrad_jax import datasets
from unixgrad_jax._certificates import frank_wolfe_gap
from unixgrad_jax._eval_params import eval_params
from unixgrad_jax._loops import StepInfo
from unixgrad_jax._minibatches import minibatches
from unixgrad_jax._minimize import Solution, minimize
from unixgrad_jax._progress import progress_bar
from unixgrad_jax._solve import Run, solve
from unixgrad_jax._status import Status
from unixgrad_jax.geometries import (
    Batched,
    Birkhoff,
    Box,
    CappedSimplex,
    ElasticNet,
    EntropicBox,
    EntropicL1Ball,
    EntropicSimplex,
    EntropicSpectrahedron,
    FromProjection,
    Geometry,
    GroupBall,
    GroupNorm,
    L1Ball,
    L1Norm,
    L2Ball,
    MonotoneBox,
    NuclearBall,
    NuclearNorm,
    Penalized,
    Penalty,
    PNormBall,
    Product,
    ShiftedEntropySimplex,
    Simplex,
    Spectrahedron,
    SpectralBall,
    SquaredL2Norm,
    TransportPolytope,
    Unconstrained,
)
from unixgrad_jax.methods import UniXGradState, unixgrad

__version__ = "0.1.0"

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
    "FromProjection",
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
    "Run",
    "ShiftedEntropySimplex",
    "Simplex",
    "Solution",
    "Spectrahedron",
    "SpectralBall",
    "SquaredL2Norm",
    "Status",
    "StepInfo",
    "TransportPolytope",
    "Unconstrained",
    "UniXGradState",
    "datasets",
    "eval_params",
    "frank_wolfe_gap",
    "minibatches",
    "minimize",
    "progress_bar",
    "solve",
    "unixgrad",
]
