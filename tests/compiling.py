"""Compiling functions that a test calls a few times."""

import functools

import jax
from jax.errors import JaxRuntimeError

FAST = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}


def accepted(options: dict[str, bool | int]) -> dict[str, bool | int]:
    """Return the options if this release of XLA knows them all, else none."""
    try:
        jax.jit(lambda: 0, compiler_options=options)()
    except JaxRuntimeError:
        return {}
    return options


quick_jit = functools.partial(jax.jit, compiler_options=accepted(FAST))
"""`jax.jit` that compiles to slow code, in a third of the time.

What JAX makes of the function is the same. For tests of derivatives, batches and trees; those of
rounding and of long runs compile as users do.
"""
