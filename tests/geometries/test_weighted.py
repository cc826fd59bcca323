"""Projections in a diagonal norm, against a cone solver and their laws."""

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux
from tests.geometries.catalogue import CASES, flat
from unixgrad_jax.geometries import check_weighted_projection, project_weighted


def has_one(geometry: ux.Geometry) -> bool:
    try:
        check_weighted_projection(geometry)
    except TypeError:
        return False
    return True


NAMES = [name for name, case in CASES.items() if has_one(case.geometry)]


def test_the_sets_of_the_theory_have_one() -> None:
    assert {"L2Ball", "L2Ball with center", "Box", "Simplex", "L1Ball"} <= set(NAMES)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_solution_of_a_cone_solver(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(0)
    project = jax.jit(project_weighted)
    for spread in (0.0, 0.5, 2.0):
        point = 3 * case.scale * rng.normal(size=case.size)
        weights = 10.0 ** (spread * rng.uniform(-1, 1, case.size))
        x = cp.Variable(case.size)
        problem = cp.Problem(
            cp.Minimize(cp.sum(cp.multiply(weights, cp.square(x - point)))), case.constraints(x)
        )
        problem.solve(solver="CLARABEL")
        got = project(case.geometry, case.pack(point, float), case.pack(weights, float))
        np.testing.assert_allclose(flat(got), x.value, atol=2e-5 * case.scale)


@pytest.mark.parametrize("name", NAMES)
def test_float32_points_are_feasible_whatever_the_weights(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(1)
    project = jax.jit(project_weighted)
    for reach in (0.1, 10.0, 1e4):
        for spread in (0.0, 3.0, 30.0):
            point = case.pack(reach * case.scale * rng.normal(size=case.size), np.float32)
            weights = case.pack(10.0 ** (spread * rng.uniform(-1, 0.1, case.size)), np.float32)
            got = project(case.geometry, point, weights)
            assert float(case.geometry.violation(got)) <= 32 * np.finfo("f").eps * case.scale
    zeros = case.pack(np.zeros(case.size), np.float32)
    same = project(case.geometry, point, zeros)
    np.testing.assert_allclose(
        flat(same), flat(case.geometry.project(point)), atol=1e-5 * case.scale
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", NAMES)
def test_its_derivatives_are_finite_differences(name: str) -> None:
    """In the point, the weights and the size of the set at once."""
    case, rng = CASES[name], np.random.default_rng(2)
    point, slope, down = rng.normal(size=(3, case.size))
    weights = rng.uniform(0.5, 2.0, case.size)

    def value(theta: jax.Array) -> jax.Array:
        moved = case.pack(2 * case.scale * (point + theta * slope), float)
        heavier = case.pack(weights * (1 + theta * np.abs(slope)), float)
        got = project_weighted(case.scaled(1 + theta), moved, heavier)
        return jnp.vdot(down, jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(got)]))

    h, compiled = np.float64(1e-6), jax.jit(value)
    difference = (compiled(h) - compiled(-h)) / (2 * h)
    for mode in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(jax.jit(mode(value))(0 * h), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_nan_stays_visible(name: str) -> None:
    case = CASES[name]
    point = case.pack(np.full(case.size, 2.0), np.float32)
    spoiled = jax.tree.map(lambda x: x.at[(0,) * x.ndim].set(jnp.nan), point)
    got = jax.jit(project_weighted)(case.geometry, spoiled, jax.tree.map(jnp.ones_like, point))
    assert np.isnan(flat(got)).any()


@pytest.mark.parametrize(
    "geometry",
    [
        ux.GroupBall(),
        ux.EntropicSimplex(),
        ux.Batched(ux.NuclearBall()),
        ux.Product([ux.Simplex(), ux.Product({"a": ux.MonotoneBox(0.0, 1.0)})]),
    ],
)
def test_sets_without_one_are_named(geometry: ux.Geometry) -> None:
    missing = r"has no projection in a diagonal norm. These have: Box"
    with pytest.raises(TypeError, match=missing):
        check_weighted_projection(geometry)
    with pytest.raises(TypeError, match=missing):
        ux.amsgrad(geometry, 0.1)
