"""Double precision switched on and off."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def x64_set(enabled: bool) -> Iterator[None]:
    """Set whether float64 exists, and undo that afterwards."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", enabled)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
