"""The methods of the paper in plain NumPy float64, sharing no code with the library.

Points are flat vectors, averages are the sums of the paper's equations, projections sort.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


def sum_of_squares(v: np.ndarray) -> float:
    return float(v @ v)


def half_square_of_difference(x: np.ndarray, y: np.ndarray) -> float:
    return sum_of_squares(x - y) / 2


class Oracle(NamedTuple):
    """A set and its mirror map: the prox step, the squared dual norm, D, the norm, D_R(x, y)."""

    prox: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    squared_dual_norm: Callable[[np.ndarray], float]
    diameter: float
    squared_norm: Callable[[np.ndarray], float] = sum_of_squares
    divergence: Callable[[np.ndarray, np.ndarray], float] = half_square_of_difference


Gradient = Callable[[np.ndarray], np.ndarray]


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


def mirror_prox(
    gradient: Gradient, start: np.ndarray, oracle: Oracle, num_steps: int, eta: float
) -> np.ndarray:
    """Return the averages of x_1, ..., x_t."""
    y, total, averages = np.array(start), np.zeros(start.size), []
    for t in range(1, num_steps + 1):
        x = oracle.prox(y, gradient(y), eta)
        y = oracle.prox(y, gradient(x), eta)
        total = total + x
        averages.append(total / t)
    return np.array(averages)


def optimistic_mirror_descent(
    gradient: Gradient, start: np.ndarray, oracle: Oracle, num_steps: int, eta: float
) -> np.ndarray:
    """Return the averages of x_1, ..., x_{t+1}: the last x needs no gradient of its own."""
    y, hint, xs, averages = np.array(start), np.zeros(start.size), [], []
    for _ in range(num_steps + 1):
        x = oracle.prox(y, hint, eta)
        hint = gradient(x)
        y = oracle.prox(y, hint, eta)
        xs.append(x)
        averages.append(np.mean(xs, axis=0))
    return np.array(averages[1:])


def universal_mirror_prox(
    gradient: Gradient, start: np.ndarray, oracle: Oracle, num_steps: int, g0: float
) -> np.ndarray:
    y, squares, total, averages = np.array(start), 0.0, np.zeros(start.size), []
    for t in range(1, num_steps + 1):
        eta = oracle.diameter / np.sqrt(g0**2 + squares)
        x = oracle.prox(y, gradient(y), eta)
        following = oracle.prox(y, gradient(x), eta)
        moved = oracle.squared_norm(x - following) + oracle.squared_norm(x - y)
        squares += moved / (5 * eta**2)
        y = following
        total = total + x
        averages.append(total / t)
    return np.array(averages)


def accelegrad(
    gradient: Gradient,
    start: np.ndarray,
    oracle: Oracle,
    num_steps: int,
    g0: float,
    project: bool = True,
) -> np.ndarray:
    """Return Σα_s·y_{s+1}/Σα_s, with y projected or, as published, not."""
    y, z = np.array(start), np.array(start)
    squares, total, weight, averages = 0.0, np.zeros(start.size), 0.0, []
    for t in range(num_steps):
        alpha = max(1.0, (t + 1) / 4)
        x = z / alpha + (1 - 1 / alpha) * y
        g = gradient(x)
        squares += alpha**2 * (g @ g)
        eta = 2 * np.sqrt(2) * oracle.diameter / np.sqrt(g0**2 + squares)
        z = oracle.prox(z, alpha * g, eta)
        y = oracle.prox(x, g, eta) if project else x - eta * g
        total = total + alpha * y
        weight += alpha
        averages.append(total / weight)
    return np.array(averages)


def axgd(
    gradient: Gradient, start: np.ndarray, oracle: Oracle, num_steps: int, smoothness: float
) -> np.ndarray:
    """Return x_1, ..., x_T; the dual point z is kept as what was subtracted from ∇ψ(x_0)."""
    x, taken, A, points = np.array(start), np.zeros(start.size), 0.0, []
    for k in range(1, num_steps + 1):
        a = k / (2 * smoothness)
        ahead = (A * x + a * oracle.prox(start, taken, 1.0)) / (A + a)
        trial = taken + a * gradient(ahead)
        x = (A * x + a * oracle.prox(start, trial, 1.0)) / (A + a)
        taken = taken + a * gradient(x)
        A += a
        points.append(x)
    return np.array(points)


def adagrad_norm(
    gradient: Gradient, start: np.ndarray, oracle: Oracle, num_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the averages of x_1, ..., x_{t+1}, and the x_{t+1}."""
    x, squares, xs = np.array(start), 0.0, [np.array(start)]
    for _ in range(num_steps):
        g = gradient(x)
        squares += g @ g
        x = oracle.prox(x, g, np.sqrt(2) * oracle.diameter / np.sqrt(2 * squares))
        xs.append(x)
    averages = np.cumsum(xs, axis=0) / np.arange(1, num_steps + 2)[:, None]
    return averages[1:], np.array(xs[1:])


def amsgrad(
    gradient: Gradient,
    start: np.ndarray,
    project: Callable[[np.ndarray, np.ndarray], np.ndarray],
    num_steps: int,
    eta: Callable[[int], float],
    b1: float,
    b2: float,
) -> np.ndarray:
    """Return x_2, ..., x_{T+1}; `project(point, weights)` is in a diagonal norm."""
    x, points = np.array(start), []
    m, v, top = np.zeros((3, start.size))
    for t in range(num_steps):
        g = gradient(x)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        top = np.maximum(top, v)
        x = project(x - eta(t) * m / np.sqrt(top), np.sqrt(top))
        points.append(x)
    return np.array(points)


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a decreasing function."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2


def project_l2_ball_weighted(v: np.ndarray, w: np.ndarray, radius: float) -> np.ndarray:
    if v @ v <= radius**2:
        return v
    multiplier = bisect(
        lambda m: float(np.sum((w * v / (w + m)) ** 2) - radius**2),
        0.0,
        w.max() * np.sqrt(v @ v) / radius,
    )
    return w * v / (w + multiplier)


def project_simplex_weighted(v: np.ndarray, w: np.ndarray, total: float) -> np.ndarray:
    reach = w.max() * (np.abs(v).max() + total)
    multiplier = bisect(lambda m: float(np.maximum(v - m / w, 0).sum() - total), -reach, reach)
    return np.maximum(v - multiplier / w, 0)


def project_l1_ball_weighted(v: np.ndarray, w: np.ndarray, radius: float) -> np.ndarray:
    if np.abs(v).sum() <= radius:
        return v
    return np.sign(v) * project_simplex_weighted(np.abs(v), w, radius)


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
        lambda v: float(np.abs(v).sum() ** 2),
        lambda x, y: float(total * np.sum(x[x > 0] * np.log(x[x > 0] / y[x > 0]))),
    )
