"""Strict settings for every test, and the precision fixtures."""

import os
from collections.abc import Iterator

import jax
import numpy as np
import pytest

from tests.compiling import accepted
from tests.precision import x64_set

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)


def pytest_configure(config: pytest.Config) -> None:
    """Compile less: most of the time of these tests is spent in the compiler.

    Runs that leave the slow tests out, as the default one does, compile to slower code in half the
    time, the others as users do. Compiled code is kept from one run to the next.
    """
    starts_workers = bool(config.getoption("numprocesses", None))
    is_short = config.option.markexpr == "not slow" and "XLA_FLAGS" not in os.environ
    if starts_workers and is_short and accepted({"xla_cpu_use_fusion_emitters": False}):
        os.environ["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false"  # for the workers
    if not hasattr(config, "cache"):  # run with -p no:cacheprovider
        return
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


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
