"""One test per law of the protocol, over the table of geometries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux
from tests import problems
from tests.geometries.catalogue import CASES, Case

pytestmark = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())

STEP_SIZES = [0.0, 1e-3, 0.3, 1.0, 30.0, 1e4]


def anchors(case: Case, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return members at which the mirror map is defined."""
    points = case.members(rng, count)
    if case.relative_interior:
        points = 0.9 * points + 0.1 * points.mean(axis=1, keepdims=True)
    return points


def tolerance(case: Case, dtype: np.dtype) -> float:
    return 8 * np.finfo(dtype).eps * case.scale


def step_point(case: Case, y: Any, gradient: Any, size: float) -> Any:
    mirror = case.geometry.to_mirror(y)
    return case.geometry.to_point(case.geometry.step(mirror, gradient, size))


def test_steps_are_feasible_and_keep_the_dtype(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    for y in anchors(case, rng, 10):
        for size in STEP_SIZES:
            gradient = jnp.asarray(rng.normal(size=case.size), dtype)
            x = step_point(case, jnp.asarray(y, dtype), gradient, size)
            assert x.dtype == dtype
            assert float(case.geometry.violation(x)) <= tolerance(case, dtype)


def test_projections_are_feasible_and_idempotent(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(1)
    for scale in [1e-3, 1.0, 1e4]:
        point = jnp.asarray(scale * rng.normal(size=case.size), dtype)
        once = case.geometry.project(point)
        assert once.dtype == dtype
        assert float(case.geometry.violation(once)) <= tolerance(case, dtype)
        np.testing.assert_allclose(
            case.geometry.project(once), once, atol=4 * np.finfo(dtype).eps * case.scale
        )


def test_projections_leave_members_where_they_are(case: Case, dtype: np.dtype) -> None:
    for y in case.members(np.random.default_rng(2), 20):
        member = jnp.asarray(y, dtype)
        np.testing.assert_allclose(
            case.geometry.project(member), member, atol=tolerance(case, dtype)
        )


def test_euclidean_projections_make_obtuse_angles_and_do_not_expand(
    case: Case, dtype: np.dtype
) -> None:
    if case.relative_interior:
        return
    rng = np.random.default_rng(3)
    members = case.members(rng, 50)
    a, b = rng.normal(size=(2, 30, case.size)) * 3
    for first, second in zip(a, b, strict=True):
        p = np.asarray(case.geometry.project(jnp.asarray(first, dtype)), np.float64)
        q = np.asarray(case.geometry.project(jnp.asarray(second, dtype)), np.float64)
        reach = np.abs(first).sum() * case.scale * case.size
        assert np.max((members - p) @ (first - p)) <= 8 * np.finfo(dtype).eps * reach
        assert np.linalg.norm(p - q) <= np.linalg.norm(first - second) + tolerance(case, dtype)


def test_steps_are_optimal(case: Case, dtype: np.dtype) -> None:
    """⟨s·g + ∇R(x⁺) − ∇R(y), z − x⁺⟩ ≥ 0 for members z."""
    rng = np.random.default_rng(4)
    members = case.members(rng, 50)
    for y in anchors(case, rng, 10):
        for size in [1e-3, 0.3, 1.0, 30.0]:
            gradient = rng.normal(size=case.size)
            mirror = case.geometry.to_mirror(jnp.asarray(y, dtype))
            stepped = case.geometry.step(mirror, jnp.asarray(gradient, dtype), size)
            x = np.asarray(case.geometry.to_point(stepped), np.float64)
            change = np.asarray(stepped, np.float64) - np.asarray(mirror, np.float64)
            if case.relative_interior:  # mirror coordinates are ∇R/total, up to a constant
                change = change * case.scale
            force = size * gradient + change
            slack = (members - x) @ force
            magnitude = (np.abs(size * gradient).max() + np.abs(mirror).max()) * case.scale
            assert slack.min() >= -8 * np.finfo(dtype).eps * magnitude * case.size


def test_the_mirror_map_is_1_strongly_convex_in_its_norm(case: Case) -> None:
    rng = np.random.default_rng(5)
    for x, y in zip(anchors(case, rng, 50), anchors(case, rng, 50), strict=True):
        middle = case.mirror_map((x + y) / 2)
        mean = (case.mirror_map(x) + case.mirror_map(y)) / 2
        assert middle <= mean - case.norm(x - y) ** 2 / 8 + 1e-12


def divergence(case: Case, x: np.ndarray, y: np.ndarray) -> float:
    """Return D_R(x, y) with ∇R(y) by central differences."""
    h = 1e-6
    steps = np.eye(case.size) * h
    slope = [(case.mirror_map(y + e) - case.mirror_map(y - e)) / (2 * h) for e in steps]
    return case.mirror_map(x) - case.mirror_map(y) - float(np.dot(slope, x - y))


def test_the_diameter_bounds_the_divergence_and_is_attained_where_exact(
    case: Case, dtype: np.dtype
) -> None:
    D = float(case.geometry.diameter(jnp.zeros(case.size, dtype)))
    rng = np.random.default_rng(6)
    if case.extremes is None:
        center = np.asarray(case.geometry.interior_point(jnp.zeros(case.size)), np.float64)
        pairs = [(x, center) for x in case.members(rng, 60)]
        attained = (case.members(rng, 1)[0], center)
    else:
        pairs = list(zip(case.members(rng, 60), case.members(rng, 60), strict=True))
        attained = case.extremes
    assert all(divergence(case, x, y) <= D**2 + 1e-6 for x, y in pairs)
    np.testing.assert_allclose(divergence(case, *attained), D**2, rtol=1e-5)


def test_hoelder_holds_between_members(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(7)
    for x, y in zip(case.members(rng, 50), case.members(rng, 50), strict=True):
        g = rng.normal(size=case.size)
        dual = np.sqrt(float(case.geometry.squared_dual_norm(jnp.asarray(g, dtype))))
        assert g @ (x - y) <= dual * case.norm(x - y) + 100 * tolerance(case, dtype)


def test_the_dual_norm_ignores_what_is_constant_on_the_set(case: Case, dtype: np.dtype) -> None:
    """Adding to g a vector normal to all differences of members changes nothing."""
    members = case.members(np.random.default_rng(8), 40)
    normal = np.ones(case.size)
    if np.abs((members - members[0]) @ normal).max() > 1e-9:
        return
    g = np.random.default_rng(9).normal(size=case.size)
    plain = case.geometry.squared_dual_norm(jnp.asarray(g, dtype))
    shifted = case.geometry.squared_dual_norm(jnp.asarray(g + 3 * normal, dtype))
    np.testing.assert_allclose(plain, shifted, rtol=100 * np.finfo(dtype).eps)


def test_linear_minimization_beats_1000_members(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(10)
    members = case.members(rng, 1000)
    for _ in range(10):
        g = rng.normal(size=case.size)
        vertex = case.geometry.minimize_linear(jnp.asarray(g, dtype))
        assert vertex.dtype == dtype
        assert float(case.geometry.violation(vertex)) <= tolerance(case, dtype)
        slack = 100 * np.finfo(dtype).eps * case.scale
        assert np.asarray(vertex, np.float64) @ g <= (members @ g).min() + slack


def test_linear_minimization_of_zero_is_a_member(case: Case, dtype: np.dtype) -> None:
    vertex = case.geometry.minimize_linear(jnp.zeros(case.size, dtype))
    assert float(case.geometry.violation(vertex)) <= tolerance(case, dtype)


def test_the_interior_point_minimizes_the_mirror_map_and_takes_shapes(
    case: Case, dtype: np.dtype
) -> None:
    like = jax.ShapeDtypeStruct((case.size,), dtype)
    center = case.geometry.interior_point(like)
    assert center.dtype == dtype
    assert float(case.geometry.violation(center)) <= tolerance(case, dtype)
    if isinstance(case.geometry, ux.Box):  # the center of ½‖x − midpoint‖²
        np.testing.assert_allclose(center, np.full(case.size, 0.125))
        return
    if "center" in vars(case.geometry):
        np.testing.assert_allclose(center, np.full(case.size, vars(case.geometry)["center"]))
        return
    lowest = case.mirror_map(np.asarray(center, np.float64))
    values = [case.mirror_map(x) for x in case.members(np.random.default_rng(11), 100)]
    assert lowest <= min(values) + tolerance(case, dtype)


def test_the_violation_measures_the_distance_out(case: Case, dtype: np.dtype) -> None:
    vertex = case.geometry.minimize_linear(-jnp.ones(case.size, dtype))
    outward = jnp.zeros(case.size, dtype).at[0].set(0.5)
    assert float(case.geometry.violation(vertex)) <= tolerance(case, dtype)
    assert float(case.geometry.violation(vertex + outward)) > 0.05
    assert jnp.isnan(case.geometry.violation(vertex.at[1].set(jnp.nan)))


def test_a_plain_set_has_no_penalty(case: Case, dtype: np.dtype) -> None:
    assert float(case.geometry.penalty(jnp.ones(case.size, dtype))) == 0


@pytest.mark.parametrize(
    "operation",
    [
        "step",
        "project",
        "to_mirror",
        "minimize_linear",
        "squared_dual_norm",
        "diameter",
        "violation",
    ],
)
def test_a_tree_is_one_vector(case: Case, operation: str, dtype: np.dtype) -> None:
    rng = np.random.default_rng(12)
    y = jnp.asarray(anchors(case, rng, 1)[0], dtype)
    g = jnp.asarray(rng.normal(size=case.size), dtype)
    function = getattr(case.geometry, operation)
    if operation == "step":
        flat = function(case.geometry.to_mirror(y), g, 0.7)
        mirror = case.geometry.to_mirror(problems.as_tree(y))
        tree = function(mirror, problems.as_tree(g), 0.7)
    else:
        flat, tree = function(y if operation == "to_mirror" else g), None
        tree = function(problems.as_tree(y if operation == "to_mirror" else g))
    got = problems.as_vector(tree) if flat.ndim else tree
    np.testing.assert_allclose(got, flat, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


def test_mixed_dtypes_are_kept_leaf_by_leaf(case: Case) -> None:
    rng = np.random.default_rng(13)
    tree = problems.as_tree(jnp.asarray(rng.normal(size=case.size), jnp.float32))
    tree["b"] = [tree["b"][0].astype(jnp.bfloat16)]
    tree["c"] = (tree["c"][0].astype(jnp.float16),)
    projected = case.geometry.project(tree)
    assert jax.tree.map(lambda leaf: leaf.dtype, tree) == jax.tree.map(
        lambda leaf: leaf.dtype, projected
    )
    assert float(case.geometry.violation(projected)) <= 8 * 2**-7 * case.scale


def test_vmap_over_points_is_a_loop(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(14)
    points = jnp.asarray(3 * rng.normal(size=(6, case.size)), dtype)
    mirrors = jax.vmap(case.geometry.to_mirror)(jax.vmap(case.geometry.project)(points))
    batch = jax.vmap(lambda m, g: case.geometry.step(m, g, 0.7))(mirrors, points)
    for m, g, row in zip(mirrors, points, batch, strict=True):
        np.testing.assert_allclose(row, case.geometry.step(m, g, 0.7), rtol=1e-5, atol=1e-6)


def test_vmap_over_sizes_is_a_loop(case: Case, dtype: np.dtype) -> None:
    point = jnp.asarray(np.random.default_rng(15).normal(size=case.size), dtype)
    factors = [0.5, 1.0, 2.0]
    family = [case.scaled(k) for k in factors]
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(leaves, dtype), *family)
    batch = jax.vmap(lambda geometry: geometry.project(point))(stacked)
    for geometry, row in zip(family, batch, strict=True):
        np.testing.assert_allclose(row, geometry.project(point), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_derivatives_equal_finite_differences(case: Case) -> None:
    """Forward and reverse, in the point, the gradient, the step size and the radius."""
    rng = np.random.default_rng(16)
    y = jnp.asarray(anchors(case, rng, 30)[-1])
    weights = jnp.asarray(rng.normal(size=case.size))
    gradient = jnp.asarray(rng.normal(size=case.size))

    def stepped(y: jax.Array, g: jax.Array, size: jax.Array, factor: jax.Array) -> jax.Array:
        geometry = jax.tree.map(lambda leaf: leaf * factor, case.geometry)
        mirror = geometry.to_mirror(geometry.project(y))
        return jnp.vdot(weights, geometry.to_point(geometry.step(mirror, g, size)))

    at = (y, gradient, jnp.asarray(0.7), jnp.asarray(1.1))
    h = 1e-6
    reverse = jax.grad(stepped, argnums=(0, 1, 2, 3))(*at)
    for index in range(4):
        direction = jnp.asarray(rng.normal(size=jnp.shape(at[index])))
        tangents = tuple(
            direction if i == index else jnp.zeros_like(value) for i, value in enumerate(at)
        )
        _, forward = jax.jvp(stepped, at, tangents)
        up = stepped(*(a + h * t for a, t in zip(at, tangents, strict=True)))
        down = stepped(*(a - h * t for a, t in zip(at, tangents, strict=True)))
        expected = (up - down) / (2 * h)
        np.testing.assert_allclose(forward, expected, atol=1e-7)
        np.testing.assert_allclose(jnp.vdot(reverse[index], direction), expected, atol=1e-7)


def test_derivatives_are_finite_everywhere(case: Case, dtype: np.dtype) -> None:
    """At kinks, ties, zeros and vertices, in forward and reverse mode."""
    center = case.geometry.interior_point(jnp.zeros(case.size, dtype))
    vertex = case.geometry.minimize_linear(jnp.arange(case.size, dtype=dtype))
    for point in [jnp.zeros(case.size, dtype), jnp.ones(case.size, dtype), center, vertex]:
        assert jnp.all(jnp.isfinite(jax.jacrev(case.geometry.project)(point)))
        assert jnp.all(jnp.isfinite(jax.jacfwd(case.geometry.project)(point)))
    for gradient in [jnp.zeros(case.size, dtype), jnp.ones(case.size, dtype)]:
        assert jnp.all(jnp.isfinite(jax.grad(case.geometry.squared_dual_norm)(gradient)))
        mirror = case.geometry.to_mirror(center)
        jacobian = jax.jacrev(lambda g, m=mirror: case.geometry.step(m, g, 1.0))(gradient)
        assert jnp.all(jnp.isfinite(jacobian))


def test_a_geometry_is_frozen_data_that_crosses_jit(case: Case) -> None:
    traces = []

    @jax.jit
    def project(geometry: ux.Geometry, point: jax.Array) -> jax.Array:
        traces.append(None)
        return geometry.project(point)

    point = jnp.ones(case.size)
    first = project(case.geometry, point)
    project(case.scaled(2.0), point)
    assert len(traces) == 1
    np.testing.assert_allclose(first, case.geometry.project(point), rtol=1e-6)
    assert not callable(case.geometry)
    field = next(iter(vars(case.geometry)))
    with pytest.raises(AttributeError):
        setattr(case.geometry, field, 3.0)
    leaves, structure = jax.tree.flatten(case.geometry)
    assert repr(jax.tree.unflatten(structure, leaves)) == repr(case.geometry)
