"""Strict settings for every test, and the precision fixtures."""

import os
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from jax.errors import JaxRuntimeError

from tests.precision import x64_set

QUICKLY = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""Options of XLA that compile to slower code, in half the time."""

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)


def pytest_configure(config: pytest.Config) -> None:
    """Compile less: most of the time of these tests is spent in the compiler.

    Workers compile quickly, unless the environment has XLA_FLAGS, be it empty. Compiled code is
    kept from one run to the next.
    """
    starts_workers = bool(config.getoption("numprocesses", None))
    if starts_workers and "XLA_FLAGS" not in os.environ and _are_known(QUICKLY):
        os.environ["XLA_FLAGS"] = " ".join(
            f"--{name}={str(value).lower()}" for name, value in QUICKLY.items()
        )
    if not hasattr(config, "cache"):  # run with -p no:cacheprovider
        return
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _are_known(options: dict[str, bool | int]) -> bool:
    """Return whether this release of XLA takes the options: with others a process would end."""
    try:
        jax.jit(lambda: 0, compiler_options=options)()
    except JaxRuntimeError:
        return False
    return True


@pytest.fixture(params=["float32", pytest.param("float64", marks=pytest.mark.slow)])
def dtype(request: pytest.FixtureRequest) -> Iterator[np.dtype]:
    """Run the test once with x64 off in float32, and, left out by default, with x64 on in float64.

    By default float64 is tested where it matters most: by the tests that use `x64`, which compare
    with derivatives, cone solvers and the transcription of the paper.
    """
    with x64_set(request.param == "float64"):
        yield np.dtype(request.param)


@pytest.fixture
def x64() -> Iterator[None]:
    """Run the test with x64 on."""
    with x64_set(True):
        yield
