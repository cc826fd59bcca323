"""The table of geometries. A new geometry is tested by adding one line to CASES."""

import dataclasses
from collections.abc import Callable

import numpy as np

import unixgrad_jax as ux


def l2(v: np.ndarray) -> float:
    return float(np.sqrt(np.sum(v**2)))


def l1(v: np.ndarray) -> float:
    return float(np.abs(v).sum())


def half_square(x: np.ndarray) -> float:
    return float(np.sum(x**2) / 2)


@dataclasses.dataclass(frozen=True)
class Case:
    """A geometry, and what the laws need to know of it from a source other than its code.

    Attributes:
        geometry: the geometry, with Python-float fields.
        size: the number of entries of a point.
        members: draws points of K, vertices and boundary included, one a row.
        mirror_map: R(x) in NumPy.
        norm: the norm in which R is 1-strongly convex.
        extremes: two points of K with D_R = D², where D is exact; None where it is a heuristic.
        scale: the largest size of a point of K, in the units of `violation`.
        relative_interior: whether the mirror map needs positive entries.
        scaled: rebuilds the geometry with its radius-like fields multiplied by a factor.
    """

    geometry: ux.Geometry
    size: int
    members: Callable[[np.random.Generator, int], np.ndarray]
    mirror_map: Callable[[np.ndarray], float]
    norm: Callable[[np.ndarray], float]
    extremes: tuple[np.ndarray, np.ndarray] | None
    scale: float
    scaled: Callable[[float], ux.Geometry]
    relative_interior: bool = False


SIZE = 9


def unit(index: int, value: float) -> np.ndarray:
    return np.eye(SIZE)[index] * value


def ball_members(rng: np.random.Generator, count: int) -> np.ndarray:
    directions = rng.normal(size=(count, SIZE))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return 2.0 * directions * rng.choice([1.0, 1.0, 0.3], size=(count, 1))


def box_members(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.clip(rng.normal(size=(count, SIZE)), -0.5, 0.75)


def simplex_members(rng: np.random.Generator, count: int) -> np.ndarray:
    alpha = rng.choice([0.05, 1.0, 20.0], size=count)
    draws = np.stack([rng.dirichlet(np.full(SIZE, a)) for a in alpha])
    draws[: min(count, SIZE)] = np.eye(SIZE)[: min(count, SIZE)]
    return 1.5 * draws


def l1_members(rng: np.random.Generator, count: int) -> np.ndarray:
    signs = rng.choice([-1.0, 1.0], size=(count, SIZE))
    return signs * simplex_members(rng, count) * (2.0 / 1.5) * rng.choice([1, 0.5], (count, 1))


def negative_entropy(x: np.ndarray) -> float:
    shares = np.where(x > 0, x, 1.0) / 1.5
    return float(1.5 * np.sum(np.where(x > 0, x, 0.0) * np.log(shares)))


CASES = {
    "L2Ball": Case(
        ux.L2Ball(2.0), SIZE, ball_members, half_square, l2,
        (unit(0, 2.0), unit(0, -2.0)), 2.0, lambda k: ux.L2Ball(2.0 * k),
    ),
    "L2Ball with center": Case(
        ux.L2Ball(2.0, 1.5), SIZE, lambda rng, n: 1.5 + ball_members(rng, n), half_square, l2,
        (1.5 + unit(3, 2.0), 1.5 + unit(3, -2.0)), 6.5, lambda k: ux.L2Ball(2.0 * k, 1.5),
    ),
    "Box": Case(
        ux.Box(-0.5, 0.75), SIZE, box_members, half_square, l2,
        (np.full(SIZE, -0.5), np.full(SIZE, 0.75)), 0.75, lambda k: ux.Box(-0.5 * k, 0.75 * k),
    ),
    "Simplex": Case(
        ux.Simplex(1.5), SIZE, simplex_members, half_square, l2,
        (unit(0, 1.5), unit(5, 1.5)), 1.5, lambda k: ux.Simplex(1.5 * k),
    ),
    "L1Ball": Case(
        ux.L1Ball(2.0), SIZE, l1_members, half_square, l2,
        (unit(2, 2.0), unit(2, -2.0)), 2.0, lambda k: ux.L1Ball(2.0 * k),
    ),
    "EntropicSimplex": Case(
        ux.EntropicSimplex(1.5), SIZE, simplex_members, negative_entropy, l1,
        None, 1.5, lambda k: ux.EntropicSimplex(1.5 * k), relative_interior=True,
    ),
}  # fmt: skip
