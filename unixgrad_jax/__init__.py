"""Universal, tuning-free convex optimization over constraint sets, for JAX and Optax."""

from unixgrad_jax import datasets
from unixgrad_jax._certificates import frank_wolfe_gap
from unixgrad_jax._eval_params import eval_params
from unixgrad_jax._loops import StepInfo
from unixgrad_jax._minibatches import minibatches
from unixgrad_jax._solve import Run, solve
from unixgrad_jax.geometries import (
    Box,
    EntropicSimplex,
    Geometry,
    L1Ball,
    L2Ball,
    Simplex,
)
from unixgrad_jax.methods import UniXGradState, unixgrad

__version__ = "0.1.0"

__all__ = [
    "Box",
    "EntropicSimplex",
    "Geometry",
    "L1Ball",
    "L2Ball",
    "Run",
    "Simplex",
    "StepInfo",
    "UniXGradState",
    "datasets",
    "eval_params",
    "frank_wolfe_gap",
    "minibatches",
    "solve",
    "unixgrad",
]
