"""A progress bar for solves that run inside compiled code."""

from types import TracebackType
from typing import Any, TextIO

from unixgrad_jax._types import Array


class ProgressBar:
    """A callback of `minimize` that draws a line with the step, the value and the proven gap."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def __call__(self, step: Array, value: Array, gap: Array) -> None:
        if int(step) < self._bar.n:  # another solve
            self._bar.reset()
        self._bar.update(int(step) - self._bar.n)
        self._bar.set_postfix_str(f"value {float(value):.6g}, proven gap {float(gap):.1e}")

    def close(self) -> None:
        """Draw the line a last time and leave it."""
        self._bar.close()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def progress_bar(description: str | None = None, file: TextIO | None = None) -> ProgressBar:
    """Return a callback for `minimize` that draws a progress bar with tqdm.

    One bar may serve several solves, one after the other; under vmap it shows the lanes in turn.
    Every new bar compiles the solve again: a callback is part of the compiled code.

    Args:
        description: what stands before the bar.
        file: where to draw; by default standard error.

    Returns:
        The callback, also a context manager that closes the bar.

    Raises:
        ImportError: if tqdm is not installed.

    Example:
        >>> import io, jax, jax.numpy as jnp, unixgrad_jax as ux
        >>> with ux.progress_bar("fit", file=io.StringIO()) as bar:
        ...     solution = ux.minimize(jnp.sum, ux.L2Ball(), jnp.ones(2), callback=bar)
        ...     jax.effects_barrier()
    """
    try:
        import tqdm  # an extra
    except ImportError:
        raise ImportError("progress_bar needs tqdm: python -m pip install tqdm") from None
    return ProgressBar(tqdm.tqdm(desc=description, unit=" steps", file=file))
