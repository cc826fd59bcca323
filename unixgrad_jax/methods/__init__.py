"""The methods, one file each, as pure functions on a state and as optax transforms."""

from unixgrad_jax.methods._unixgrad import UniXGradState, unixgrad

__all__ = ["UniXGradState", "unixgrad"]
