"""The derivative of a solution with respect to the data of its problem."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.scipy.sparse.linalg import gmres

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Objective, Params
from unixgrad_jax.geometries import Geometry


def follow_solution(
    objective: Objective, geometry: Geometry, args: tuple, solution: Params, step_size: Array
) -> Params:
    """Return the solution, with the derivative of the exact one in objective, args and geometry.

    The minimizer of f + h on K is the fixed point of a step, x = step(x, ∇f(x)). By the implicit
    function theorem its derivative solves (I − J)·dx = dT, where J is the derivative of the step
    in x and dT the one in the data; J contains the projection onto the tangent space at boundary
    points. The system is solved by GMRES, forward and transposed.

    Args:
        objective: f, called as `objective(params, *args)`.
        geometry: K and R.
        args: further arguments.
        solution: x, in one wide dtype.
        step_size: the length of the step, about 1/L.
    """

    def residual(point: Params) -> Params:
        gradient = jax.grad(objective)(point, *args)
        moved = geometry.step(geometry.to_mirror(point), gradient, step_size)
        return optax.tree.sub(point, geometry.to_point(moved))

    def given(_: Any, point: Params) -> Params:
        return point

    return lax.custom_root(residual, lax.stop_gradient(solution), given, _solve_linear)


def _solve_linear(linear: Any, right: Params) -> Params:
    size = _trees.size(right)
    eps = float(jnp.finfo(_trees.wide_dtype(right)).eps)
    return gmres(linear, right, tol=10 * eps, restart=min(size, 50), maxiter=max(1, size // 25))[0]


@jax.custom_jvp
def follow(known: Any, fresh: Any) -> Any:
    """Return `known`, with the derivative of `fresh`, which is the same computed again."""
    del fresh
    return known


@follow.defjvp
def _follow_jvp(primals: tuple, tangents: tuple) -> tuple:
    return primals[0], tangents[1]
