"""Type aliases of the public signatures."""

from collections.abc import Callable
from typing import Any

import chex

Params = chex.ArrayTree
"""A pytree of floating-point arrays: the point x, one vector to the method."""

Gradient = chex.ArrayTree
"""A pytree with the structure and shapes of the params it belongs to."""

Mirror = chex.ArrayTree
"""Mirror coordinates ∇R(x) of a point x, with the structure and shapes of x."""

Scalar = chex.Numeric
"""A Python number or an array of shape ()."""

Array = chex.Array

Objective = Callable[..., Any]
"""`objective(params, *args)` or `objective(params, batch, *args)`, returning a scalar."""
