"""Params that are one matrix, and functions of its singular values or eigenvalues."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Params

Rule = Callable[[Array, Array], Array]
"""Maps a vector of singular values or eigenvalues, and a parameter, to new ones, entry by entry.

Permuting the vector must permute the result: that is what makes the function of a matrix unique.
"""


def matrix_of(tree: Params, name: str, *, square: bool = False) -> Array:
    """Return the one matrix of a tree, in its wide dtype; 0×0 for a tree without leaves.

    Raises:
        ValueError: if the tree has several leaves, or its leaf is not a (square) matrix.
    """
    leaves = jax.tree.leaves(_trees.unify(tree))
    if not leaves:
        return jnp.zeros((0, 0), _trees.wide_dtype(tree))
    check_matrix(tree, name, square=square)
    return leaves[0]


def check_matrix(tree: Params, name: str, *, square: bool = False) -> tuple[int, int]:
    """Return the shape of the one matrix of a tree of arrays or shapes; (0, 0) without leaves.

    Raises:
        ValueError: as `matrix_of`.
    """
    shapes = [_trees.shape(leaf) for leaf in jax.tree.leaves(tree)]
    if not shapes:
        return 0, 0
    if len(shapes) > 1 or len(shapes[0]) != 2 or (square and shapes[0][0] != shapes[0][1]):
        found = f"shape {shapes[0]}" if len(shapes) == 1 else f"leaves of shapes {shapes}"
        raise ValueError(
            f"{name} is a set of {'square ' * square}matrices: params must have one leaf of shape "
            f"{'(n, n)' if square else '(m, n)'}, not {found}. For a stack of matrices use "
            "Batched, for several leaves Product."
        )
    rows, columns = shapes[0]
    return rows, columns


def like_matrix(matrix: Array, tree: Params) -> Params:
    """Return the tree with the matrix as its leaf, in the leaf's dtype."""
    return _trees.cast_like(jax.tree.map(lambda _: matrix, tree), tree)


def traceless(matrix: Array) -> Array:
    """Return A − (tr A/n)·I."""
    size = matrix.shape[0]
    return matrix - jnp.trace(matrix) / max(size, 1) * jnp.eye(size, dtype=matrix.dtype)


def above_least_diagonal(matrix: Array) -> Array:
    """Return A − min Aᵢᵢ·I: what all eigenvalues have in common does not cost the least digits."""
    least = jnp.min(jnp.diagonal(matrix), initial=jnp.inf)
    shift = lax.stop_gradient(jnp.where(jnp.isfinite(least), least, 0))
    return matrix - shift * jnp.eye(matrix.shape[0], dtype=matrix.dtype)


def symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2


def singular_values(matrix: Array) -> Array:
    """Return the singular values in descending order, without vectors."""
    if not matrix.size:
        return jnp.zeros(0, matrix.dtype)
    return jnp.linalg.svd(matrix, compute_uv=False)


def map_singular_values(rule: Rule, matrix: Array, parameter: Array) -> Array:
    """Return U·diag(rule(σ))·Vᵀ for a matrix U·diag(σ)·Vᵀ.

    A rule that changes nothing returns the matrix itself. Derivatives are those of the function of
    the matrix, finite also at repeated and at zero singular values, where those of U and V are not:
    there a divided difference becomes a derivative (Lewis and Sendov, "Nonsmooth analysis of
    singular values", 2005).
    """
    if not matrix.size:
        return matrix
    if matrix.shape[0] < matrix.shape[1]:
        return _map_tall(rule, matrix.T, parameter).T
    return _map_tall(rule, matrix, parameter)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _map_tall(rule: Rule, matrix: Array, parameter: Array) -> Array:
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    mapped = rule(values, parameter)
    return _from_singular_values(matrix, left, values, mapped, right)


@_map_tall.defjvp
def _(rule: Rule, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (matrix, parameter), (change, parameter_change) = primals, tangents
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    half = product(change, right.T)
    inner = product(left.T, half)
    mapped, mapped_change = jax.jvp(
        rule, (values, parameter), (jnp.diagonal(inner), parameter_change)
    )
    own, slopes = _slopes(rule, values, parameter)
    scale = jnp.max(values)
    rises, runs = (x[:, None] - x[None, :] for x in (mapped, values))
    even = _quotient(rises, runs, scale, slopes)
    rises, runs = (x[:, None] + x[None, :] for x in (mapped, values))
    odd = _quotient(rises, runs, scale, slopes)
    core = even * symmetric(inner) + odd * (inner - inner.T) / 2
    core = jnp.where(jnp.eye(values.size, dtype=bool), mapped_change[:, None], core)
    outer = (half - product(left, inner)) * _quotient(mapped, values, scale, own)[None, :]
    result = _from_singular_values(matrix, left, values, mapped, right)
    return result, product(product(left, core) + outer, right)


def _from_singular_values(
    matrix: Array, left: Array, values: Array, mapped: Array, right: Array
) -> Array:
    return jnp.where(jnp.all(mapped == values), matrix, product(left * mapped[None, :], right))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def map_eigenvalues(rule: Rule, matrix: Array, parameter: Array) -> Array:
    """Return V·diag(rule(λ))·Vᵀ for a symmetric matrix V·diag(λ)·Vᵀ.

    A rule that changes nothing returns the matrix itself. Derivatives are finite at repeated
    eigenvalues too (the Daleckii-Krein formula).
    """
    if not matrix.size:
        return matrix
    values, vectors = jnp.linalg.eigh(matrix, symmetrize_input=False)
    return _from_eigenvalues(matrix, values, rule(values, parameter), vectors)


@map_eigenvalues.defjvp
def _(rule: Rule, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (matrix, parameter), (change, parameter_change) = primals, tangents
    if not matrix.size:
        return matrix, change
    values, vectors = jnp.linalg.eigh(matrix, symmetrize_input=False)
    inner = product(product(vectors.T, symmetric(change)), vectors)
    mapped, mapped_change = jax.jvp(
        rule, (values, parameter), (jnp.diagonal(inner), parameter_change)
    )
    _, slopes = _slopes(rule, values, parameter)
    scale = jnp.max(jnp.abs(values))
    gaps = values[:, None] - values[None, :]
    core = _quotient(mapped[:, None] - mapped[None, :], gaps, scale, slopes) * inner
    core = jnp.where(jnp.eye(values.size, dtype=bool), mapped_change[:, None], core)
    result = _from_eigenvalues(matrix, values, mapped, vectors)
    return result, product(product(vectors, core), vectors.T)


def _from_eigenvalues(matrix: Array, values: Array, mapped: Array, vectors: Array) -> Array:
    rebuilt = product(vectors * mapped[None, :], vectors.T)
    return jnp.where(jnp.all(mapped == values), matrix, symmetric(rebuilt))


def _slopes(rule: Rule, values: Array, parameter: Array) -> tuple[Array, Array]:
    """Return ∂fᵢ/∂σᵢ, and the derivatives of (fᵢ − fⱼ)/2 as σᵢ and σⱼ move apart."""
    jacobian = jax.jacfwd(rule)(values, parameter)
    own = jnp.diagonal(jacobian)
    return own, symmetric(own[:, None] - jacobian)


def _quotient(difference: Array, gap: Array, scale: Array, slope: Array) -> Array:
    """Return the divided difference, at small gaps the slope in its place."""
    close = jnp.abs(gap) <= jnp.sqrt(jnp.finfo(gap.dtype).eps) * scale
    return jnp.where(close, slope, difference / jnp.where(close, 1, gap))


def product(a: Array, b: Array) -> Array:
    """Return the matrix product in full precision, on every device."""
    return jnp.matmul(a, b, precision="highest")
