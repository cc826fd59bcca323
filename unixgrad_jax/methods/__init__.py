"""The methods, one file each, as pure functions on a state and as optax transforms."""

from unixgrad_jax.methods._accelegrad import AcceleGradState, accelegrad
from unixgrad_jax.methods._adagrad_norm import AdaGradNormState, adagrad_norm
from unixgrad_jax.methods._amsgrad import AMSGradState, amsgrad
from unixgrad_jax.methods._axgd import AXGDState, axgd
from unixgrad_jax.methods._mirror_prox import MirrorProxState, extragradient, mirror_prox
from unixgrad_jax.methods._optimistic_mirror_descent import (
    OptimisticMirrorDescentState,
    optimistic_mirror_descent,
)
from unixgrad_jax.methods._projected import ProjectedState, projected
from unixgrad_jax.methods._universal_mirror_prox import (
    UniversalMirrorProxState,
    universal_mirror_prox,
)
from unixgrad_jax.methods._unixgrad import UniXGradState, unixgrad

MethodState = (
    UniXGradState
    | MirrorProxState
    | OptimisticMirrorDescentState
    | UniversalMirrorProxState
    | AcceleGradState
    | AXGDState
    | AdaGradNormState
    | AMSGradState
    | ProjectedState
)
"""The state of any method; its `output` is the method's answer."""

__all__ = [
    "MethodState",
    "UniXGradState",
    "accelegrad",
    "adagrad_norm",
    "amsgrad",
    "axgd",
    "extragradient",
    "mirror_prox",
    "optimistic_mirror_descent",
    "projected",
    "universal_mirror_prox",
    "unixgrad",
]
