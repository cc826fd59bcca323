"""Checks of arguments, made on concrete values only: a tracer always passes."""

import numbers

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from unixgrad_jax._types import Scalar

MOST = np.iinfo(np.int32).max
"""The largest number of steps, which are counted in int32."""


def is_real(value: object) -> bool:
    """Return whether a value is a real number or an array of them, traced or not."""
    if isinstance(value, numbers.Real) or hasattr(value, "__jax_array__"):
        return True
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        return False
    kinds = jnp.floating, jnp.integer, jnp.bool_
    return any(jnp.issubdtype(value.dtype, kind) for kind in kinds)


def concrete(value: object) -> np.ndarray | None:
    """Return a number or an array as float64 NumPy values, None for tracers and placeholders."""
    if not is_real(value):
        return None
    array = value if isinstance(value, numbers.Real | np.ndarray) else jnp.asarray(value)
    return None if isinstance(array, jax.core.Tracer) else np.asarray(array).astype(np.float64)


def check_real(name: str, value: object) -> None:
    """Check that a value is a real number or an array of them.

    Raises:
        TypeError: if it is not.
    """
    if not is_real(value):
        hint = "; a schedule goes through optax.inject_hyperparams" if callable(value) else ""
        raise TypeError(f"{name} must be a real number or an array of them, not {value!r}{hint}.")


def check_number(name: str, value: Scalar, *, positive: bool = False, finite: bool = True) -> None:
    """Check that a number (or every entry of an array of them) is ≥ 0, or > 0 if `positive`.

    Raises:
        TypeError: if the value is not numeric.
        ValueError: if the value is negative, NaN, zero where `positive`, infinite where `finite`.
    """
    check_real(name, value)
    values = concrete(value)
    if values is None:
        return
    right = (values > 0 if positive else values >= 0) & (np.isfinite(values) | (not finite))
    if not np.all(right):
        kind = "positive" if positive else "non-negative"
        raise ValueError(f"{name} must be {kind}{' and finite' * finite}, not {value}.")


def check_counts(**counts: int) -> None:
    """Check that numbers of steps or rows are integers of at least 1 that int32 holds.

    Raises:
        TypeError, ValueError: naming the one that is not.
    """
    for name, value in counts.items():
        if not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be an integer, not {value!r}.")
        if value < 1 or int(value) != value:
            raise ValueError(f"{name} must be an integer of at least 1, not {value}.")
        if value > MOST:
            raise ValueError(f"{name} must be at most {MOST}, not {value}.")


def check_share(name: str, value: Scalar) -> None:
    """Check that a number is in [0, 1), the weight that a running mean gives to its past.

    Raises:
        TypeError, ValueError: if it is not.
    """
    check_number(name, value)
    values = concrete(value)
    if values is not None and np.any(values >= 1):
        raise ValueError(f"{name} must be in [0, 1), not {value}.")


def check_bounded(name: str, *values: Scalar) -> None:
    """Check that the numbers that bound a set are finite.

    Raises:
        ValueError: if one is infinite.
    """
    for value in values:
        values_seen = concrete(value)
        if values_seen is not None and not np.all(np.isfinite(values_seen)):
            raise ValueError(f"this {name} is unbounded (a bound is {value}): give diameter=...")
