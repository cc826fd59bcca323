"""The derivative of a solution with respect to the data of its problem."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import gmres

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Params


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def follow_solution(
    problem: Callable[[Any], Callable[[Params], Any]], data: Any, solution: Any, step_size: Array
) -> Any:
    """Return the evaluated solution, with the derivative of the exact one in the data.

    The minimizer of f + h on K is the fixed point of a step, x = step(x, ∇f(x)). By the implicit
    function theorem its derivative solves (I − J)·dx = dT, where J is the derivative of the step
    in x and dT the one in the data; at boundary points J contains the projection onto the
    tangent space. GMRES solves the system, and its transpose in reverse mode.

    Args:
        problem: `problem(data)` has a `geometry` and evaluates a point: params, value, gradient.
        data: a pytree of arrays.
        solution: what `problem(data)` returns at the solution.
        step_size: the length of the step, about 1/L.
    """
    del problem, data, step_size
    return solution


@follow_solution.defjvp
def _follow_solution_jvp(problem: Any, primals: tuple, tangents: tuple) -> tuple:
    data, solution, step_size = primals

    def residual(data: Any, point: Params) -> Params:
        evaluate = problem(data)
        geometry, gradient = evaluate.geometry, evaluate(point).gradient
        moved = geometry.step(geometry.to_mirror(point), gradient, step_size)
        return optax.tree.sub(point, geometry.to_point(moved))

    at = _trees.unify(solution.params)
    _, in_point = jax.linearize(lambda point: residual(data, point), at)
    units = float(jnp.finfo(_trees.wide_dtype(at)).eps)

    def followed(data: Any) -> Any:
        change, _ = gmres(
            in_point,
            residual(data, at),
            tol=100 * units,
            restart=min(_trees.size(at), 50),
            maxiter=20,
            solve_method="incremental",
        )
        return problem(data)(optax.tree.sub(at, change))

    return solution, jax.jvp(followed, (data,), (tangents[0],))[1]
