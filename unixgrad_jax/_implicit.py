"""The derivative of a solution with respect to the data of its problem."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.scipy.sparse.linalg import gmres

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Params


def hoist(function: Callable[..., Any], *like: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function without free variables, and the arrays that the given one closes over.

    As `jax.closure_convert`, but for integers and keys too, which have no derivative and yet must
    not be hidden from `jax.vmap` and `jax.jit`.

    Args:
        function: a function of pytrees of arrays.
        like: arguments, in whose shapes and dtypes the result takes its own.

    Returns:
        `hoisted(closed_over, *arguments)`, and `closed_over` as it is now.
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*like)
    structure = jax.tree.structure(shape)

    def hoisted(closed_over: list[Any], *arguments: Any) -> Any:
        evaluate = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, closed_over))
        return structure.unflatten(evaluate(*jax.tree.leaves(arguments)))

    return hoisted, list(closed.consts)


class Fixed(NamedTuple):
    """What the derivative of a solution x = T(x) is made of, at a point x.

    Attributes:
        candidate: what is to be differentiated: x, f(x) + h(x), aux.
        gradient: ∇f(x).
        squared_dual_norm: ‖∇f(x)‖*².
        residual: x − T(x), for the step T(x) = argmin_{v∈K} s·(⟨∇f(x), v⟩ + h(v)) + D_R(v, x).
    """

    candidate: Any
    gradient: Gradient
    squared_dual_norm: Array
    residual: Params


View = Callable[[Any, Params, Array], Fixed]
"""Maps the data of a problem, a point x and a step size s to a `Fixed`."""


def follow_solution(
    problem: Callable[[Any], Any], data: Any, solution: Any, diameter: Array
) -> Any:
    """Return the evaluated solution, with the derivative of the exact one in the data.

    The minimizer of f + h on K is the fixed point of a step, x = step(x, ∇f(x)). By the implicit
    function theorem its derivative solves (I − J)·dx = dT, where J is the derivative of the step
    in x and dT the one in the data; at boundary points J contains the projection onto the
    tangent space. GMRES solves the system, and its transpose in reverse mode.

    Args:
        problem: `problem(data)` has a `geometry` and evaluates a point: params, value, gradient.
            What its functions close over counts as data.
        data: a pytree of arrays.
        solution: the `candidate` of what `problem(data)` returns at the solution.
        diameter: D.
    """

    def view(data: Any, at: Params, step_size: Array) -> Fixed:
        evaluate = problem(data)
        geometry, point = evaluate.geometry, evaluate(at)
        moved = geometry.step(geometry.to_mirror(at), point.gradient, step_size)
        return Fixed(
            candidate=point.candidate,
            gradient=point.gradient,
            squared_dual_norm=geometry.squared_dual_norm(point.gradient),
            residual=optax.tree.sub(at, geometry.to_point(moved)),
        )

    hoisted, closed_over = hoist(view, data, _trees.unify(solution.params), diameter)

    def view_of_all(data: Any, at: Params, step_size: Array) -> Fixed:
        data, closed_over = data
        return hoisted(closed_over, data, at, step_size)

    return _follow(view_of_all, (data, closed_over), solution, diameter)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _follow(view: View, data: Any, solution: Any, diameter: Array) -> Any:
    del view, data, diameter
    return solution


@_follow.defjvp
def _follow_jvp(view: View, primals: tuple, tangents: tuple) -> tuple:
    data, solution, diameter = primals
    # The point of this rule depends on the data as well, for derivatives of derivatives.
    solution = _follow(view, data, solution, diameter)
    at = _trees.unify(solution.params)
    step_size = lax.stop_gradient(_step_size(functools.partial(view, data), at, diameter))
    _, in_point = jax.linearize(lambda point: view(data, point, step_size).residual, at)
    units = float(jnp.finfo(_trees.wide_dtype(at)).eps)

    def followed(data: Any) -> Any:
        change, _ = gmres(
            in_point,
            view(data, at, step_size).residual,
            tol=100 * units,
            restart=min(_trees.size(at), 50),
            maxiter=20,
            solve_method="incremental",
        )
        return view(data, optax.tree.sub(at, change), step_size).candidate

    return solution, jax.jvp(followed, (data,), (tangents[0],))[1]


def _step_size(view: Callable[[Params, Array], Fixed], at: Params, diameter: Array) -> Array:
    """Return 1/λ for the largest eigenvalue of the Hessian, but no more than 2D/‖∇f‖*.

    Not the step that the search ended with: that may be tiny, where rounding shortened it, or
    enormous, where the start was the solution. Ten power iterations find λ well enough.
    """

    def gradient_at(point: Params) -> tuple[Gradient, Array]:
        seen = view(point, jnp.zeros_like(diameter))
        return seen.gradient, seen.squared_dual_norm

    _, product, squared_dual_norm = jax.linearize(gradient_at, at, has_aux=True)

    def length(tree: Params) -> Array:
        return jnp.sqrt(_trees.vdot(tree, tree))

    def scaled(tree: Params) -> Params:
        size = length(tree)
        return jax.tree.map(lambda leaf: leaf / jnp.where(size > 0, size, 1), tree)

    leaves, structure = jax.tree.flatten(at)
    keys = jax.random.split(jax.random.key(0), max(len(leaves), 1))
    first = [
        jax.random.normal(key, leaf.shape, leaf.dtype) + jnp.zeros_like(leaf)  # its sharding
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    direction = lax.fori_loop(
        0, 10, lambda _, vector: scaled(product(vector)), scaled(structure.unflatten(first))
    )
    slope = jnp.sqrt(squared_dual_norm)
    curvature = length(product(direction))
    steepest = jnp.where(diameter > 0, slope / jnp.where(diameter > 0, 2 * diameter, 1), 0)
    inverse = jnp.maximum(curvature, steepest)
    return jnp.where(inverse > 0, 1 / jnp.where(inverse > 0, inverse, 1), 1)
