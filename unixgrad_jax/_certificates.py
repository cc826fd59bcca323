"""Bounds on the error of a point that need no knowledge of the optimum."""

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Params
from unixgrad_jax.geometries import Geometry


def frank_wolfe_gap(geometry: Geometry, params: Params, gradient: Gradient) -> Array:
    """Return max_{v∈K} ⟨∇f(x), x − v⟩ + h(x) − h(v), which bounds f(x) + h(x) − min_K (f + h).

    For convex f and a feasible x this is a proven bound on the error, if the gradient is exact.
    With a noisy gradient it is an estimate.

    Args:
        geometry: the constraint set; needs its linear minimization oracle.
        params: x, a point of K.
        gradient: ∇f(x), with the structure and shapes of params.

    Returns:
        A scalar in units of f, non-negative up to rounding.

    Raises:
        ValueError: if the gradient does not match the params.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> x = jnp.array([1.0, 0.0])
        >>> ux.frank_wolfe_gap(ux.Simplex(), x, gradient=jnp.array([3.0, 1.0]))
        Array(2., dtype=float32)
    """
    _trees.check_same_structure("the gradient", gradient, params)
    wide = _trees.unify(params)
    vertex = geometry.minimize_linear(_trees.as_dtype(gradient, _trees.wide_dtype(wide)))
    difference = jax.tree.map(jnp.subtract, wide, vertex)
    return _trees.vdot(gradient, difference) + geometry.penalty(wide) - geometry.penalty(vertex)
