"""Algorithm 2 of the paper in plain NumPy float64, sharing no code with the library.

Points are flat vectors, averages are the sums of the paper's equations, projections sort.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Oracle(NamedTuple):
    """A set and its mirror map: the prox step, the squared dual norm and D."""

    prox: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    squared_dual_norm: Callable[[np.ndarray], float]
    diameter: float


class Trajectory(NamedTuple):
    """Row t−1 belongs to iteration t; `sums[t−1]` is Σ_{i≤t} α_i²‖g_i − M_i‖*²."""

    queries: np.ndarray
    last: np.ndarray
    average: np.ndarray
    anchors: np.ndarray
    sums: np.ndarray


def unixgrad(
    gradient: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    oracle: Oracle,
    num_steps: int,
    offset: float | None = 1.0,
    diameter: float | None = None,
) -> Trajectory:
    D = oracle.diameter if diameter is None else diameter
    y = np.array(start, np.float64)
    weighted = np.zeros_like(y)
    squares = 0.0
    rows: list[tuple] = []
    for t in range(1, num_steps + 1):
        A = t * (t + 1) / 2
        z = (t * y + weighted) / A
        M = gradient(z)
        if offset is None:
            offset = oracle.squared_dual_norm(M)
        eta = 2 * D / np.sqrt(offset + squares)
        x = oracle.prox(y, t * M, eta)
        weighted = weighted + t * x
        average = weighted / A
        g = gradient(average)
        y = oracle.prox(y, t * g, eta)
        squares += t**2 * oracle.squared_dual_norm(g - M)
        rows.append((z, x, average, y, squares))
    return Trajectory(*map(np.array, zip(*rows, strict=True)))


def project_simplex(v: np.ndarray, total: float = 1.0) -> np.ndarray:
    ordered = np.sort(v)[::-1]
    sums = np.cumsum(ordered) - total
    k = np.nonzero(ordered * np.arange(1, v.size + 1) > sums)[0][-1]
    return np.maximum(v - sums[k] / (k + 1), 0)


def project_l1_ball(v: np.ndarray, radius: float = 1.0) -> np.ndarray:
    if np.abs(v).sum() <= radius:
        return v
    return np.sign(v) * project_simplex(np.abs(v), radius)


def project_l2_ball(v: np.ndarray, radius: float = 1.0) -> np.ndarray:
    norm = np.sqrt(np.sum(v**2))
    return v if norm <= radius else v * (radius / norm)


def l2_ball(radius: float) -> Oracle:
    return Oracle(
        lambda y, g, s: project_l2_ball(y - s * g, radius),
        lambda g: float(g @ g),
        np.sqrt(2) * radius,
    )


def box(lower: float, upper: float, size: int) -> Oracle:
    return Oracle(
        lambda y, g, s: np.minimum(np.maximum(y - s * g, lower), upper),
        lambda g: float(g @ g),
        np.sqrt(size * (upper - lower) ** 2 / 2),
    )


def simplex(total: float) -> Oracle:
    return Oracle(
        lambda y, g, s: project_simplex(y - s * g, total),
        lambda g: float(np.sum((g - g.mean()) ** 2)),
        total,
    )


def l1_ball(radius: float) -> Oracle:
    return Oracle(
        lambda y, g, s: project_l1_ball(y - s * g, radius),
        lambda g: float(g @ g),
        np.sqrt(2) * radius,
    )


def entropic_simplex(total: float, size: int) -> Oracle:
    def prox(y: np.ndarray, g: np.ndarray, s: float) -> np.ndarray:
        exponent = -s * g / total
        weights = y * np.exp(exponent - exponent[y > 0].max())
        return total * weights / weights.sum()

    return Oracle(
        prox,
        lambda g: float(((g.max() - g.min()) / 2) ** 2),
        total * np.sqrt(np.log(size)),
    )
