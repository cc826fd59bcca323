"""Convex problems with known structure, made from fixed seeds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import unixgrad_jax as ux


def least_squares(x: jax.Array, A: jax.Array, b: jax.Array) -> jax.Array:
    """Return ‖Ax − b‖²/(2n)."""
    return jnp.mean((A @ x - b) ** 2) / 2


def absolute_loss(x: jax.Array, A: jax.Array, b: jax.Array) -> jax.Array:
    """Return ‖Ax − b‖₁/n, convex and not smooth."""
    return jnp.mean(jnp.abs(A @ x - b))


def small_quadratic(p: jax.Array) -> jax.Array:
    """Return ⟨V, p⟩ + ⟨p, Mp⟩, least at −3.1753470 both on the simplex and in the ℓ1 ball."""
    V = jnp.array([-6.0, -6.15703, -5.55986])
    M = jnp.array(
        [[3, 2.8464949, 2.4178848], [2.8464949, 3, 2.84649498], [2.4178848, 2.84649498, 3]]
    )
    return V @ p + p @ M @ p


def regression_data(
    n: int = 500, d: int = 100, seed: int = 0, noise: float = 1e-3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A ~ N(0, 1), x♮ ~ N(0, 1) and b = A x♮ + noise of the given variance, in float64."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d))
    solution = rng.normal(size=d)
    return A, solution, A @ solution + np.sqrt(noise) * rng.normal(size=n)


def as_tree(vector: Any) -> dict[str, Any]:
    """Split a flat vector of at least 5 entries into a dict of leaves of ranks 0, 2 and 1."""
    end = 1 + 2 * ((vector.shape[-1] - 1) // 4)
    lead = vector.shape[:-1]
    return {
        "a": vector[..., 0],
        "b": [vector[..., 1:end].reshape(*lead, 2, -1)],
        "c": (vector[..., end:],),
    }


def as_vector(tree: dict[str, Any]) -> Any:
    """Undo `as_tree`."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


GEOMETRIES = {
    "ball": ux.L2Ball(2.0),
    "box": ux.Box(-0.5, 0.75),
    "simplex": ux.Simplex(1.5),
    "l1_ball": ux.L1Ball(2.0),
    "entropic_simplex": ux.EntropicSimplex(1.5),
}
