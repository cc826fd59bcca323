"""Type aliases of the public signatures."""

from collections.abc import Callable
from typing import Any

import chex
import jax

Array = jax.Array

PyTree = Any

Params = PyTree
"""A pytree of real arrays: the point x, one vector to the method."""

Gradient = PyTree
"""A pytree with the structure and shapes of the params it belongs to."""

Mirror = PyTree
"""Mirror coordinates of a point x: ∇R(x) in a form that keeps its digits, any pytree of arrays."""

Scalar = chex.Numeric
"""A Python number or an array of shape ()."""

Key = chex.PRNGKey
"""A PRNG key, typed or raw."""

Objective = Callable[..., Any]
"""`objective(params, *args)` or `objective(params, batch, *args)`, returning a scalar."""
