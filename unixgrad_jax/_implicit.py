"""The derivative of a solution with respect to the data of its problem."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.scipy.sparse.linalg import gmres

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Params


def follow_solution(
    problem: Callable[[Any], Any], data: Any, solution: Params, step_size: Array
) -> Params:
    """Return the solution, with the derivative of the exact one in the data.

    The minimizer of f + h on K is the fixed point of a step, x = step(x, ∇f(x)). By the implicit
    function theorem its derivative solves (I − J)·dx = dT, where J is the derivative of the step
    in x and dT the one in the data; at boundary points J contains the projection onto the
    tangent space. GMRES solves the system, and its transpose in reverse mode.

    Args:
        problem: `problem(data)` is called with a point for its `.gradient`, and has a `.geometry`.
        data: a pytree of arrays and functions.
        solution: x, in one wide dtype.
        step_size: the length of the step, about 1/L.
    """

    def residual(data: Any, point: Params) -> Params:
        at = problem(data)
        geometry = at.geometry
        moved = geometry.step(geometry.to_mirror(point), at(point).gradient, step_size)
        return optax.tree.sub(point, geometry.to_point(moved))

    solution = lax.stop_gradient(solution)
    _, in_point = jax.linearize(lambda point: residual(lax.stop_gradient(data), point), solution)
    units = float(jnp.finfo(_trees.wide_dtype(solution)).eps)
    change, _ = gmres(
        in_point,
        residual(data, solution),
        tol=100 * units,
        restart=min(_trees.size(solution), 50),
        maxiter=20,
        solve_method="incremental",
    )
    return follow(solution, optax.tree.sub(solution, change))


@jax.custom_jvp
def follow(known: Any, fresh: Any) -> Any:
    """Return `known`, with the derivative of `fresh`, which is the same computed again."""
    del fresh
    return known


@follow.defjvp
def _follow_jvp(primals: tuple, tangents: tuple) -> tuple:
    return primals[0], tangents[1]
