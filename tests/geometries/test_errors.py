"""What is refused, with messages that name what is wrong."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux

ORTHANT = ux.FromProjection(optax.projections.projection_non_negative, 1.0)
SPACE = ux.Penalized(ux.Unconstrained(1.0), ux.ElasticNet(1.0, 0.0))


def solve_on(geometry: ux.Geometry) -> object:
    return ux.solve(jnp.sum, geometry, jnp.zeros(2), 10, diameter=1.0)


def minimize_on(geometry: ux.Geometry) -> object:
    return ux.minimize(jnp.sum, geometry, jnp.zeros(2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ux.L2Ball(-1.0), "radius must be non-negative, not -1.0"),
        (lambda: ux.L1Ball(float("nan")), "radius must be non-negative, not nan"),
        (lambda: ux.Simplex(0.0), "total must be positive and finite, not 0.0"),
        (lambda: ux.EntropicSimplex(np.array([1.0, -2.0])), "total must be positive"),
        (lambda: ux.Box(1.0, 0.0), "lower must be at most upper everywhere"),
        (lambda: ux.Box(np.zeros(2), np.array([1.0, np.nan])), "lower must be at most upper"),
        (lambda: ux.Box(np.inf, np.inf), "the box is empty"),
        (lambda: ux.Box(0.0, np.inf).diameter(jnp.zeros(2)), "unbounded.*give diameter="),
        (lambda: ux.L2Ball(np.inf).diameter(jnp.zeros(2)), "unbounded.*give diameter="),
        (lambda: ux.CappedSimplex(1.0, 0.0), "cap must be positive and finite, not 0.0"),
        (lambda: ux.CappedSimplex(3.0, 1.0).diameter(jnp.zeros(2)), "the capped simplex is empty"),
        (lambda: ux.CappedSimplex(3.0).interior_point(jnp.zeros(2)), "the capped simplex is empty"),
        (lambda: ux.CappedSimplex(3.0).project(jnp.zeros(2)), "the capped simplex is empty"),
        (lambda: ux.Batched(ux.CappedSimplex(3.0)).project(jnp.zeros((4, 2))), "simplex is empty"),
        (lambda: ux.Product([ux.CappedSimplex(3.0)]).project([jnp.zeros(2)]), "simplex is empty"),
        (lambda: solve_on(ux.CappedSimplex(3.0)), "the capped simplex is empty"),
        (lambda: ux.TransportPolytope(1.0, 1.0).project(jnp.ones((2, 3))), "the same total, but"),
        (lambda: ux.Box([0.0, [1.0, 1.0]], [[1.0, 1.0], 2.0]), "a tree prefix of the other"),
        (lambda: ux.L2Ball(1.0, center=np.array([0.0, np.nan])), "center must be finite"),
        (lambda: ux.GroupBall(-1.0), "radius must be non-negative, not -1.0"),
        (lambda: ux.GroupBall(axis=1).project(jnp.zeros(3)), "axis=1 does not exist in a leaf of"),
        (lambda: ux.NuclearBall(-1.0), "radius must be non-negative, not -1.0"),
        (lambda: ux.NuclearBall().project(jnp.zeros(3)), "one leaf of shape .m, n., not shape .3,"),
        (lambda: ux.NuclearBall().diameter(jnp.zeros(3)), "NuclearBall is a set of matrices"),
        (lambda: ux.SpectralBall().project([jnp.eye(2)] * 2), "leaves of shapes.*use Batched"),
        (lambda: ux.Spectrahedron().project(jnp.zeros((3, 2))), "set of square matrices"),
        (lambda: ux.EntropicSpectrahedron(0.0), "trace must be positive and finite, not 0.0"),
        (lambda: ux.EntropicL1Ball(0.0), "radius must be positive and finite, not 0.0"),
        (lambda: ux.EntropicBox(0.0, np.inf), "EntropicBox needs finite bounds"),
        (lambda: ux.MonotoneBox(1.0, 0.0), "lower at most upper"),
        (lambda: ux.PNormBall(1.0, 1.0), r"p must be in \(1, 2\], not 1.0"),
        (lambda: ux.PNormBall(1.0, 3.0), r"p must be in \(1, 2\], not 3.0"),
        (lambda: ux.Unconstrained(-1.0), "diameter must be non-negative and finite, not -1.0"),
        (lambda: ux.Unconstrained().diameter(jnp.zeros(2)), "this Unconstrained has no diameter"),
        (
            lambda: ux.Unconstrained(1.0).minimize_linear(jnp.ones(2)),
            "no linear minimization oracle",
        ),
        (lambda: ORTHANT.minimize_linear(jnp.ones(2)), "no linear minimization oracle"),
        (lambda: ux.FromProjection(jnp.size, 1.0).project(jnp.ones(2)), "must have the shapes of"),
        (lambda: ux.Product({"a": ux.Simplex()}).project({"b": jnp.ones(2)}), "tree prefix of the"),
        (lambda: ux.Product([ux.Simplex()]).project(jnp.ones(2)), "tree prefix of the params"),
        (lambda: ux.Batched(ux.Simplex()).project(jnp.array(1.0)), "the same leading axis"),
        (lambda: ux.Batched(ux.L2Ball(np.ones(3))).project(jnp.ones((2, 2))), "same leading axis"),
        (lambda: ux.Batched(ux.L2Ball(np.full(2, np.inf))).diameter(jnp.ones((2, 2))), "unbounded"),
        (lambda: ux.Penalized(ux.Simplex(), ux.L1Norm()), "no closed form. These pairs do: L1Norm"),
        (lambda: ux.Penalized(ux.L2Ball(1.0, 2.0), ux.L1Norm()), "no closed form"),
        (lambda: ux.Penalized(ux.EntropicSimplex(), ux.SquaredL2Norm()), "no closed form"),
        (lambda: ux.Penalized(ux.Box(), ux.GroupNorm()), "no closed form"),
        (lambda: ux.Penalized(ux.Box(), ux.NuclearNorm()), "no closed form"),
        (lambda: SPACE.minimize_linear(jnp.ones(2)), "ElasticNet with l2=0 on ℝⁿ has no linear"),
        (lambda: minimize_on(SPACE), "ElasticNet with l2=0 on ℝⁿ has no linear"),
        (lambda: ux.L1Norm(-1.0), "weight must be non-negative and finite, not -1.0"),
        (lambda: ux.SquaredL2Norm(0.0), "weight must be positive and finite, not 0.0"),
        (lambda: ux.Simplex().interior_point(), "does not know the shape"),
        (lambda: ux.Box().interior_point(), "does not know the shape"),
    ],
)
def test_bad_sets_are_refused(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, params: object) -> object:
        return params


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ux.L2Ball("1"), "radius must be a real number"),
        (lambda: ux.L2Ball([1.0]), "radius must be a real number"),
        (lambda: ux.L2Ball(object()), "radius must be a real number"),
        (lambda: ux.L2Ball(1j), "radius must be a real number"),
        (lambda: ux.L2Ball(1.0, center="a"), "center must be a real number"),
        (lambda: ux.Box(0.0, 1j), "upper must be a real number"),
        (lambda: ux.MonotoneBox("a", 1.0), "lower must be a real number"),
        (lambda: ux.PNormBall(1.0, "a"), "p must be a real number"),
        (lambda: ux.TransportPolytope([1.0], [1.0]), "row_sums must be a real number or an array"),
        (lambda: ux.GroupBall(1.0, axis="a"), "axis must be an int, a tuple of ints or None"),
        (lambda: ux.GroupNorm(1.0, axis=[0]), "axis must be an int, a tuple of ints or None"),
        (lambda: ux.Product({"a": 3.0}), "a tree of geometries, but one leaf is 3.0"),
        (lambda: ux.Batched(jnp.ones(3)), "Batched takes a geometry"),
        (lambda: ux.Penalized(ux.Box(), 3.0), "penalty must be one of L1Norm, ElasticNet"),
        (lambda: ux.Penalized(3.0, ux.L1Norm()), "geometry must be a unixgrad_jax.Geometry"),
        (lambda: ux.FromProjection(3.0, 1.0), "projection must be a function of params"),
        (lambda: ux.FromProjection(Unhashable(), 1.0), "must be hashable"),
    ],
)
def test_what_is_not_a_set_is_refused(build: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()  # type: ignore[operator]
