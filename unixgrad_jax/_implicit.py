"""The derivative of a solution with respect to the data of its problem."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.scipy.sparse.linalg import gmres

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Params


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def follow_solution(
    problem: Callable[[Any], Callable[[Params], Any]], data: Any, solution: Any, diameter: Array
) -> Any:
    """Return the evaluated solution, with the derivative of the exact one in the data.

    The minimizer of f + h on K is the fixed point of a step, x = step(x, ∇f(x)). By the implicit
    function theorem its derivative solves (I − J)·dx = dT, where J is the derivative of the step
    in x and dT the one in the data; at boundary points J contains the projection onto the
    tangent space. GMRES solves the system, and its transpose in reverse mode.

    Args:
        problem: `problem(data)` has a `geometry` and evaluates a point: params, value, gradient.
        data: a pytree of arrays.
        solution: the `candidate` of what `problem(data)` returns at the solution.
        diameter: D.
    """
    del problem, data, diameter
    return solution


@follow_solution.defjvp
def _follow_solution_jvp(problem: Any, primals: tuple, tangents: tuple) -> tuple:
    data, solution, diameter = primals
    # The point of this rule depends on the data as well, for derivatives of derivatives.
    solution = follow_solution(problem, data, solution, diameter)

    def residual(data: Any, point: Params) -> Params:
        evaluate = problem(data)
        geometry, gradient = evaluate.geometry, evaluate(point).gradient
        moved = geometry.step(geometry.to_mirror(point), gradient, step_size)
        return optax.tree.sub(point, geometry.to_point(moved))

    at = _trees.unify(solution.params)
    step_size = lax.stop_gradient(_step_size(problem(data), at, diameter))
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
        return problem(data)(optax.tree.sub(at, change)).candidate

    return solution, jax.jvp(followed, (data,), (tangents[0],))[1]


def _step_size(evaluate: Any, at: Params, diameter: Array) -> Array:
    """Return 1/λ for the largest eigenvalue of the Hessian, but no more than 2D/‖∇f‖*.

    Not the step that the search ended with: that may be tiny, where rounding shortened it, or
    enormous, where the start was the solution. Ten power iterations find λ well enough.
    """
    gradient, product = jax.linearize(lambda point: evaluate(point).gradient, at)

    def length(tree: Params) -> Array:
        return jnp.sqrt(_trees.vdot(tree, tree))

    def scaled(tree: Params) -> Params:
        size = length(tree)
        return jax.tree.map(lambda leaf: leaf / jnp.where(size > 0, size, 1), tree)

    leaves, structure = jax.tree.flatten(at)
    keys = jax.random.split(jax.random.key(0), max(len(leaves), 1))
    first = [
        jax.random.normal(key, leaf.shape, leaf.dtype)
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    direction = lax.fori_loop(
        0, 10, lambda _, vector: scaled(product(vector)), scaled(structure.unflatten(first))
    )
    slope = jnp.sqrt(evaluate.geometry.squared_dual_norm(gradient))
    curvature = length(product(direction))
    steepest = jnp.where(diameter > 0, slope / jnp.where(diameter > 0, 2 * diameter, 1), 0)
    inverse = jnp.maximum(curvature, steepest)
    return jnp.where(inverse > 0, 1 / jnp.where(inverse > 0, inverse, 1), 1)
