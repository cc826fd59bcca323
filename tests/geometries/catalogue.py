"""The table of geometries. A new geometry is tested by adding one entry to CASES."""

import dataclasses
from collections.abc import Callable, Container, Iterable
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import problems
from tests.geometries import sets
from tests.geometries.sets import half_square, l1, l2, unit
from tests.sampling import slow_unless

Members = Callable[[np.random.Generator, int], np.ndarray]
Vector = np.ndarray


def half_squares(x: Any, y: Vector) -> Any:
    return cp.sum_squares(x - y) / 2


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A geometry, and what the laws need to know of it from a source other than its code.

    Points are flat float64 vectors here; `pack` makes params of them.

    Attributes:
        geometry: the geometry, with Python-float fields.
        members: draws points of K, vertices and boundary included, one a row.
        constraints: K as cvxpy constraints on a flat variable.
        scale: the largest size of a point of K, in the units of `violation`.
        scaled: rebuilds the geometry with its radius-like fields multiplied by a factor.
        extremes: two points of K with D_R = D², where D is exact; None where it is a heuristic, the
            range of R from the interior point; () where it is the user's.
        shape: the shape of a point.
        mirror_map: R(x) in NumPy.
        norm: the norm in which R is 1-strongly convex.
        slope: ∇R as a flat vector, from mirror coordinates as a flat vector.
        divergence: D_R(x, y) in cvxpy; None where cvxpy has no such function.
        penalty: h(x) in cvxpy.
        inner: a member with the mirror map well inside its domain, to mix starts with; None where
            every member is a start.
        normal: a vector normal to all differences of members, if there is one.
        center: the default start, where it is not the least point of R.
        leaves: whether a point may be split over the leaves of a tree, as one vector.
        unbounded: whether linear functions have no minimum on K.
        attained: whether D is the range of R, and not just a bound of it.
        parts: splits a flat point into params with a structure of its own.
    """

    geometry: ux.Geometry
    members: Members
    constraints: Callable[[Any], list]
    scale: float
    scaled: Callable[[float], ux.Geometry]
    extremes: tuple[Vector, Vector] | tuple[()] | None
    shape: tuple[int, ...] = (9,)
    mirror_map: Callable[[Vector], float] = half_square
    norm: Callable[[Vector], float] = l2
    slope: Callable[[Vector], Vector] = lambda mirror: mirror
    divergence: Callable[[Any, Vector], Any] | None = half_squares
    penalty: Callable[[Any], Any] = lambda x: 0.0
    inner: Vector | None = None
    normal: Vector | None = None
    center: Vector | None = None
    leaves: bool = True
    unbounded: bool = False
    attained: bool = True
    parts: Callable[[Any], Any] | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def euclidean(self) -> bool:
        return self.mirror_map is half_square

    def starts(self, rng: np.random.Generator, count: int) -> Vector:
        """Return members at which the mirror map is defined."""
        points = self.members(rng, count)
        return points if self.inner is None else 0.9 * points + 0.1 * self.inner

    def pack(self, vector: Any, dtype: Any) -> Any:
        """Return params with these entries."""
        array = jnp.asarray(vector, dtype)
        return self.parts(array) if self.parts else array.reshape(self.shape)

    def pack_tree(self, vector: Any, dtype: Any) -> Any:
        """Return the same params as a tree with more structure."""
        if self.parts:
            return self.pack(vector, dtype)
        if self.leaves:
            return problems.as_tree(jnp.asarray(vector, dtype))
        return {"matrix": (self.pack(vector, dtype), None)}


def flat(tree: Any) -> Vector:
    """Return the entries of params as one float64 vector."""
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(tree)])


def matrix(x: Any, shape: tuple[int, int]) -> Any:
    return cp.reshape(x, shape, order="C")


def symmetric_in(x: Any, n: int, trace: float) -> list:
    X = matrix(x, (n, n))
    S = cp.Variable((n, n), PSD=True)
    return [X == S, cp.trace(S) == trace]


def plans(x: Any, rows: Vector, columns: Vector) -> list:
    X = matrix(x, (rows.size, columns.size))
    return [x >= 0, cp.sum(X, axis=1) == rows, cp.sum(X, axis=0) == columns]


def diagonal(*values: float) -> Vector:
    return np.diag(values).ravel()


N = 9
ROWS, COLUMNS = np.array([0.5, 1.0, 1.5], "f"), np.array([0.75, 0.625, 1.0, 0.625], "f")
CENTER = np.full(N, 1.5 / N)
ONES = np.ones(N)

EUCLIDEAN = {
    "L2Ball": Case(
        ux.L2Ball(2.0), lambda r, n: sets.ball(r, n, N, 2.0), lambda x: [cp.norm(x) <= 2.0],
        2.0, lambda k: ux.L2Ball(2.0 * k), (unit(N, 0, 2.0), unit(N, 0, -2.0)),
    ),
    "L2Ball with center": Case(
        ux.L2Ball(2.0, 1.5), lambda r, n: 1.5 + sets.ball(r, n, N, 2.0),
        lambda x: [cp.norm(x - 1.5) <= 2.0],
        6.5, lambda k: ux.L2Ball(2.0 * k, 1.5), (1.5 + unit(N, 3, 2.0), 1.5 + unit(N, 3, -2.0)),
        center=np.full(N, 1.5),
    ),
    "Box": Case(
        ux.Box(-0.5, 0.75), lambda r, n: sets.box(r, n, N, -0.5, 0.75),
        lambda x: [x >= -0.5, x <= 0.75],
        0.75, lambda k: ux.Box(-0.5 * k, 0.75 * k), (np.full(N, -0.5), np.full(N, 0.75)),
        center=np.full(N, 0.125),
    ),
    "Simplex": Case(
        ux.Simplex(1.5), lambda r, n: sets.simplex(r, n, N, 1.5),
        lambda x: [x >= 0, cp.sum(x) == 1.5],
        1.5, lambda k: ux.Simplex(1.5 * k), (unit(N, 0, 1.5), unit(N, 5, 1.5)), normal=ONES,
    ),
    "L1Ball": Case(
        ux.L1Ball(2.0), lambda r, n: sets.l1_ball(r, n, N, 2.0), lambda x: [cp.norm1(x) <= 2.0],
        2.0, lambda k: ux.L1Ball(2.0 * k), (unit(N, 2, 2.0), unit(N, 2, -2.0)),
    ),
    "CappedSimplex": Case(
        ux.CappedSimplex(1.5, 0.4), lambda r, n: sets.capped_simplex(r, n, N, 1.5, 0.4),
        lambda x: [x >= 0, x <= 0.4, cp.sum(x) == 1.5],
        1.5, lambda k: ux.CappedSimplex(1.5 * k, 0.4 * k),
        (
            np.array([0.4, 0.4, 0.4, 0.3, 0, 0, 0, 0, 0]),
            np.array([0, 0, 0, 0, 0.4, 0.4, 0.4, 0.3, 0]),
        ),
        normal=ONES,
    ),
    "CappedSimplex, more than half full": Case(
        ux.CappedSimplex(3.0, 0.4), lambda r, n: sets.capped_simplex(r, n, N, 3.0, 0.4),
        lambda x: [x >= 0, x <= 0.4, cp.sum(x) == 3.0],
        3.0, lambda k: ux.CappedSimplex(3.0 * k, 0.4 * k),
        (0.4 - unit(N, 0, 0.4) - unit(N, 1, 0.2), 0.4 - unit(N, 2, 0.4) - unit(N, 3, 0.2)),
        normal=ONES,
    ),
    "GroupBall": Case(
        ux.GroupBall(2.0), lambda r, n: sets.group_ball(r, n, (4, 3), 2.0),
        lambda x: [cp.sum(cp.norm(matrix(x, (4, 3)), axis=1)) <= 2.0],
        2.0, lambda k: ux.GroupBall(2.0 * k), (unit(12, 2, 2.0), unit(12, 2, -2.0)),
        shape=(4, 3), leaves=False,
    ),
    "NuclearBall": Case(
        ux.NuclearBall(2.0),
        lambda r, n: sets.spectral(r, (4, 3), np.abs(sets.l1_ball(r, n, 3, 2.0))),
        lambda x: [cp.normNuc(matrix(x, (4, 3))) <= 2.0],
        2.0, lambda k: ux.NuclearBall(2.0 * k), (unit(12, 2, 2.0), unit(12, 2, -2.0)),
        shape=(4, 3), leaves=False,
    ),
    "SpectralBall": Case(
        ux.SpectralBall(0.7),
        lambda r, n: sets.spectral(r, (3, 4), np.clip(r.uniform(0, 1.2, (n, 3)), 0, 0.7)),
        lambda x: [cp.sigma_max(matrix(x, (3, 4))) <= 0.7],
        0.7, lambda k: ux.SpectralBall(0.7 * k),
        (0.7 * np.eye(3, 4).ravel(), -0.7 * np.eye(3, 4).ravel()), shape=(3, 4), leaves=False,
    ),
    "Spectrahedron": Case(
        ux.Spectrahedron(1.5), lambda r, n: sets.spectrahedron(r, n, 3, 1.5),
        lambda x: symmetric_in(x, 3, 1.5),
        1.5, lambda k: ux.Spectrahedron(1.5 * k), (diagonal(1.5, 0, 0), diagonal(0, 1.5, 0)),
        shape=(3, 3), leaves=False, normal=np.eye(3).ravel(),
    ),
    "MonotoneBox": Case(
        ux.MonotoneBox(-0.5, 0.75), lambda r, n: sets.monotone(r, n, N, -0.5, 0.75),
        lambda x: [x >= -0.5, x <= 0.75, cp.diff(x) >= 0],
        0.75, lambda k: ux.MonotoneBox(-0.5 * k, 0.75 * k), (np.full(N, -0.5), np.full(N, 0.75)),
        center=np.full(N, 0.125),
    ),
    "Unconstrained": Case(
        ux.Unconstrained(3.0), lambda r, n: r.normal(size=(n, N)), lambda x: [],
        1.0, lambda k: ux.Unconstrained(3.0 * k), (), unbounded=True,
    ),
    "FromProjection": Case(
        ux.FromProjection(optax.projections.projection_non_negative, 3.0),
        lambda r, n: np.maximum(r.normal(size=(n, N)), 0), lambda x: [x >= 0],
        1.0, lambda k: ux.FromProjection(optax.projections.projection_non_negative, 3.0 * k), (),
        unbounded=True,
    ),
}  # fmt: skip

ENTROPIC = {
    "EntropicSimplex": Case(
        ux.EntropicSimplex(1.5), lambda r, n: sets.simplex(r, n, N, 1.5),
        lambda x: [x >= 0, cp.sum(x) == 1.5],
        1.5, lambda k: ux.EntropicSimplex(1.5 * k), None,
        mirror_map=lambda x: sets.entropy(x, 1.5), norm=l1, slope=lambda m: 1.5 * m,
        divergence=lambda x, y: 1.5 * cp.sum(cp.kl_div(x, y)), inner=CENTER, normal=ONES,
    ),
    "ShiftedEntropySimplex": Case(
        ux.ShiftedEntropySimplex(1.5), lambda r, n: sets.simplex(r, n, N, 1.5),
        lambda x: [x >= 0, cp.sum(x) == 1.5],
        1.5, lambda k: ux.ShiftedEntropySimplex(1.5 * k), (unit(N, 0, 1.5), unit(N, 5, 1.5)),
        mirror_map=lambda x: sets.shifted_entropy(x, 1.5), norm=l1,
        slope=lambda x: 3.0 * np.log(x / 1.5 + 1 / N),
        divergence=lambda x, y: 4.5 * cp.sum(cp.kl_div(x / 1.5 + 1 / N, y / 1.5 + 1 / N)),
        normal=ONES,
    ),
    "EntropicL1Ball": Case(
        ux.EntropicL1Ball(2.0), lambda r, n: sets.l1_ball(r, n, N, 2.0),
        lambda x: [cp.norm1(x) <= 2.0],
        2.0, lambda k: ux.EntropicL1Ball(2.0 * k), None,
        mirror_map=lambda x: sets.signed_entropy(x, 2.0), norm=l1,
        slope=lambda m: m[:N] - m[N:], divergence=None, inner=np.zeros(N),
    ),
    "EntropicBox": Case(
        ux.EntropicBox(-0.5, 0.75), lambda r, n: sets.box(r, n, N, -0.5, 0.75),
        lambda x: [x >= -0.5, x <= 0.75],
        0.75, lambda k: ux.EntropicBox(-0.5 * k, 0.75 * k), None,
        mirror_map=lambda x: sets.fermi_dirac(x, -0.5, 0.75), slope=lambda m: 1.25 / 4 * m,
        divergence=lambda x, y: 1.25 / 4 * cp.sum(
            cp.kl_div(x + 0.5, y + 0.5) + cp.kl_div(0.75 - x, 0.75 - y)
        ),
        inner=np.full(N, 0.125),
    ),
    "EntropicSpectrahedron": Case(
        ux.EntropicSpectrahedron(1.5), lambda r, n: sets.spectrahedron(r, n, 3, 1.5),
        lambda x: symmetric_in(x, 3, 1.5),
        1.5, lambda k: ux.EntropicSpectrahedron(1.5 * k), None, shape=(3, 3),
        mirror_map=lambda x: sets.von_neumann(x, 1.5), norm=lambda v: sets.nuclear(v, (3, 3)),
        slope=lambda m: 1.5 * m, divergence=None, inner=0.5 * np.eye(3).ravel(),
        normal=np.eye(3).ravel(), leaves=False,
    ),
    "PNormBall": Case(
        ux.PNormBall(2.0, 1.4), lambda r, n: sets.ball(r, n, N, 2.0, 1.4),
        lambda x: [cp.pnorm(x, 1.4) <= 2.0],
        2.0, lambda k: ux.PNormBall(2.0 * k, 1.4), (unit(N, 2, 2.0), unit(N, 2, -2.0)),
        mirror_map=lambda x: sets.p_norm_map(x, 1.4), norm=lambda v: sets.lp(v, 1.4),
        divergence=lambda x, y: cp.square(cp.pnorm(x, 1.4)) / 0.8
        - sets.lp(y, 1.4) ** 0.6 / 0.4 * (np.sign(y) * np.abs(y) ** 0.4) @ x,
    ),
    "TransportPolytope": Case(
        ux.TransportPolytope(ROWS, COLUMNS), lambda r, n: sets.transport(r, n, ROWS, COLUMNS),
        lambda x: plans(x, ROWS, COLUMNS),
        1.5, lambda k: ux.TransportPolytope(ROWS * k, COLUMNS * k), None, shape=(3, 4),
        mirror_map=lambda x: sets.entropy(x, 3.0), norm=l1, slope=lambda m: 3.0 * m,
        divergence=lambda x, y: 3.0 * cp.sum(cp.kl_div(x, y)),
        inner=np.outer(ROWS, COLUMNS).ravel() / 3.0, normal=np.ones(12), leaves=False,
        attained=False,
    ),
    "Birkhoff": Case(
        ux.Birkhoff(), lambda r, n: sets.transport(r, n, np.ones(3), np.ones(3)),
        lambda x: plans(x, np.ones(3), np.ones(3)),
        1.0, lambda k: ux.Birkhoff(), None, shape=(3, 3),
        mirror_map=lambda x: sets.entropy(x, 3.0), norm=l1, slope=lambda m: 3.0 * m,
        divergence=lambda x, y: 3.0 * cp.sum(cp.kl_div(x, y)),
        inner=np.full(9, 1 / 3), normal=np.ones(9), leaves=False,
    ),
}  # fmt: skip


def blocks(x: Any) -> dict[str, Any]:
    """Split 20 entries into a box, a matrix and two rows of a simplex."""
    return {"box": x[:4], "matrix": x[4:10].reshape(2, 3), "rows": x[10:].reshape(2, 5)}


def block_members(r: np.random.Generator, n: int) -> Vector:
    return np.concatenate(
        [
            sets.box(r, n, 4, -0.5, 0.75),
            sets.spectral(r, (2, 3), np.abs(sets.l1_ball(r, n, 2, 2.0))),
            sets.simplex(r, n, 5, 1.5),
            sets.simplex(r, n, 5, 1.5),
        ],
        axis=1,
    )


def block_product(k: float) -> ux.Geometry:
    return ux.Product(
        {
            "box": ux.Box(-0.5 * k, 0.75 * k),
            "matrix": ux.NuclearBall(2.0 * k),
            "rows": ux.Batched(ux.Simplex(1.5 * k)),
        }
    )


def mixed_product(k: float) -> ux.Geometry:
    return ux.Product((ux.EntropicSimplex(1.5 * k), ux.PNormBall(2.0 * k, 1.4)))


def mixed_norm(v: Vector) -> float:
    return float(np.hypot(l1(v[:5]), sets.lp(v[5:], 1.4)))


RADII = np.array([1.0, 2.0, 0.5], np.float32)

COMBINED = {
    "Product of a box, a nuclear ball and rows of simplices": Case(
        block_product(1.0), block_members,
        lambda x: [
            x[:4] >= -0.5, x[:4] <= 0.75, cp.normNuc(matrix(x[4:10], (2, 3))) <= 2.0,
            x[10:] >= 0, cp.sum(x[10:15]) == 1.5, cp.sum(x[15:]) == 1.5,
        ],
        2.0, block_product,
        (
            np.concatenate([np.full(4, -0.5), unit(6, 0, 2.0), unit(5, 0, 1.5), unit(5, 1, 1.5)]),
            np.concatenate([np.full(4, 0.75), unit(6, 0, -2.0), unit(5, 3, 1.5), unit(5, 2, 1.5)]),
        ),
        shape=(20,), parts=blocks,
        center=np.concatenate([np.full(4, 0.125), np.zeros(6), np.full(10, 0.3)]),
    ),
    "Product of two mirror maps": Case(
        mixed_product(1.0),
        lambda r, n: np.concatenate(
            [sets.simplex(r, n, 5, 1.5), sets.ball(r, n, 4, 2.0, 1.4)], axis=1
        ),
        lambda x: [x[:5] >= 0, cp.sum(x[:5]) == 1.5, cp.pnorm(x[5:], 1.4) <= 2.0],
        2.0, mixed_product, (),
        mirror_map=lambda x: sets.entropy(x[:5], 1.5) + sets.p_norm_map(x[5:], 1.4),
        norm=mixed_norm, slope=lambda m: np.append(1.5 * m[:5], m[5:]), divergence=None,
        inner=np.append(np.full(5, 0.3), np.zeros(4)), parts=lambda x: (x[:5], x[5:]),
    ),
    "Batched, with a radius a row": Case(
        ux.Batched(ux.L1Ball(RADII)),
        lambda r, n: np.concatenate([sets.l1_ball(r, n, 3, rho) for rho in RADII], axis=1),
        lambda x: [cp.norm1(x[3 * i : 3 * i + 3]) <= rho for i, rho in enumerate(RADII)],
        2.0, lambda k: ux.Batched(ux.L1Ball(RADII * k)),
        (np.kron(RADII, [1, 0, 0]), np.kron(RADII, [-1, 0, 0])), shape=(3, 3), leaves=False,
    ),
    "Batched twice": Case(
        ux.Batched(ux.Batched(ux.Simplex(1.5))),
        lambda r, n: np.concatenate([sets.simplex(r, n, 3, 1.5) for _ in range(4)], axis=1),
        lambda x: [x >= 0, cp.sum(matrix(x, (4, 3)), axis=1) == 1.5],
        1.5, lambda k: ux.Batched(ux.Batched(ux.Simplex(1.5 * k))),
        (np.tile([1.5, 0, 0], 4), np.tile([0, 1.5, 0], 4)), shape=(2, 2, 3), leaves=False,
        normal=np.ones(12),
    ),
}  # fmt: skip

PENALIZED = {
    "L1Norm on a box": dataclasses.replace(
        EUCLIDEAN["Box"], geometry=ux.Penalized(ux.Box(-0.5, 0.75), ux.L1Norm(0.3)),
        scaled=lambda k: ux.Penalized(ux.Box(-0.5 * k, 0.75 * k), ux.L1Norm(0.3)),
        penalty=lambda x: 0.3 * cp.norm1(x),
    ),
    "ElasticNet on a box": dataclasses.replace(
        EUCLIDEAN["Box"], geometry=ux.Penalized(ux.Box(-0.5, 0.75), ux.ElasticNet(0.3, 2.0)),
        scaled=lambda k: ux.Penalized(ux.Box(-0.5 * k, 0.75 * k), ux.ElasticNet(0.3, 2.0)),
        penalty=lambda x: 0.3 * cp.norm1(x) + cp.sum_squares(x),
    ),
    "L1Norm on a ball": dataclasses.replace(
        EUCLIDEAN["L2Ball"], geometry=ux.Penalized(ux.L2Ball(2.0), ux.L1Norm(0.3)),
        scaled=lambda k: ux.Penalized(ux.L2Ball(2.0 * k), ux.L1Norm(0.3)),
        penalty=lambda x: 0.3 * cp.norm1(x),
    ),
    "ElasticNet on a ball": dataclasses.replace(
        EUCLIDEAN["L2Ball"], geometry=ux.Penalized(ux.L2Ball(2.0), ux.ElasticNet(0.3, 2.0)),
        scaled=lambda k: ux.Penalized(ux.L2Ball(2.0 * k), ux.ElasticNet(0.3, 2.0)),
        penalty=lambda x: 0.3 * cp.norm1(x) + cp.sum_squares(x),
    ),
    "L1Norm on the whole space": dataclasses.replace(
        EUCLIDEAN["Unconstrained"],
        geometry=ux.Penalized(ux.Unconstrained(3.0), ux.L1Norm(0.3)),
        scaled=lambda k: ux.Penalized(ux.Unconstrained(3.0 * k), ux.L1Norm(0.3)),
        penalty=lambda x: 0.3 * cp.norm1(x),
    ),
    "ElasticNet on the whole space": dataclasses.replace(
        EUCLIDEAN["Unconstrained"],
        geometry=ux.Penalized(ux.Unconstrained(3.0), ux.ElasticNet(0.3, 2.0)),
        scaled=lambda k: ux.Penalized(ux.Unconstrained(3.0 * k), ux.ElasticNet(0.3, 2.0)),
        penalty=lambda x: 0.3 * cp.norm1(x) + cp.sum_squares(x), unbounded=False,
    ),
    "SquaredL2Norm on a simplex": dataclasses.replace(
        EUCLIDEAN["Simplex"], geometry=ux.Penalized(ux.Simplex(1.5), ux.SquaredL2Norm(2.0)),
        scaled=lambda k: ux.Penalized(ux.Simplex(1.5 * k), ux.SquaredL2Norm(2.0)),
        penalty=cp.sum_squares,
    ),
    "SquaredL2Norm on a nuclear ball": dataclasses.replace(
        EUCLIDEAN["NuclearBall"], geometry=ux.Penalized(ux.NuclearBall(2.0), ux.SquaredL2Norm(2.0)),
        scaled=lambda k: ux.Penalized(ux.NuclearBall(2.0 * k), ux.SquaredL2Norm(2.0)),
        penalty=cp.sum_squares,
    ),
    "GroupNorm on a ball": dataclasses.replace(
        EUCLIDEAN["L2Ball"], geometry=ux.Penalized(ux.L2Ball(2.0), ux.GroupNorm(0.3)),
        members=lambda r, n: sets.ball(r, n, 12, 2.0), shape=(4, 3), leaves=False,
        extremes=(unit(12, 0, 2.0), unit(12, 0, -2.0)),
        scaled=lambda k: ux.Penalized(ux.L2Ball(2.0 * k), ux.GroupNorm(0.3)),
        penalty=lambda x: 0.3 * cp.sum(cp.norm(matrix(x, (4, 3)), axis=1)),
    ),
    "NuclearNorm on a ball": dataclasses.replace(
        EUCLIDEAN["L2Ball"], geometry=ux.Penalized(ux.L2Ball(2.0), ux.NuclearNorm(0.3)),
        members=lambda r, n: sets.ball(r, n, 12, 2.0), shape=(4, 3), leaves=False,
        extremes=(unit(12, 0, 2.0), unit(12, 0, -2.0)),
        scaled=lambda k: ux.Penalized(ux.L2Ball(2.0 * k), ux.NuclearNorm(0.3)),
        penalty=lambda x: 0.3 * cp.normNuc(matrix(x, (4, 3))),
    ),
}  # fmt: skip

CASES = EUCLIDEAN | ENTROPIC | COMBINED | PENALIZED


VARIANTS = {
    "L2Ball with center",
    "CappedSimplex, more than half full",
    "ElasticNet on a box",
    "ElasticNet on the whole space",
    "L1Norm on a ball",
    "L1Norm on the whole space",
    "SquaredL2Norm on a nuclear ball",
    "Product of two mirror maps",
    "Batched twice",
    "Birkhoff",
}
"""Cases that share their code with another one: left out by default, like float64."""

BASIC = {"L2Ball", "Box", "Simplex", "L1Ball", "EntropicSimplex", "NuclearBall", "PNormBall"}


def by_geometry(cases: Iterable[Any], kept: Container[str] = CASES.keys() - VARIANTS) -> list[Any]:
    """Return cases, or their names, as test parameters: one process runs all tests of a geometry.

    What is compiled for one of them serves the others. Those that are not kept are `slow`.
    """
    names = {id(case): name for name, case in CASES.items()}
    return [
        pytest.param(case, id=name, marks=[pytest.mark.xdist_group(name), *slow_unless(kept, name)])
        for case in cases
        for name in [case if isinstance(case, str) else names[id(case)]]
    ]
