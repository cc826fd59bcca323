"""Strict settings for every test, and the precision fixtures."""

from collections.abc import Iterator

import jax
import numpy as np
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> Iterator[np.dtype]:
    """Run the test once with x64 off in float32, and once with x64 on in float64."""
    with _x64(request.param == "float64"):
        yield np.dtype(request.param)


@pytest.fixture
def x64() -> Iterator[None]:
    """Run the test with x64 on."""
    with _x64(True):
        yield


class _x64:  # noqa: N801
    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        self.before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", self.enabled)

    def __exit__(self, *_: object) -> None:
        jax.config.update("jax_enable_x64", self.before)
