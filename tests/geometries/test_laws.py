"""One test per law of the protocol, over the table of geometries."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux
from tests.derivatives import assert_derivatives
from tests.geometries.catalogue import CASES, Case, by_geometry, flat

pytestmark = pytest.mark.parametrize("case", by_geometry(CASES.values()))

STEP_SIZES = [0.0, 1e-3, 0.3, 1.0, 30.0, 1e4]


def tolerance(case: Case, dtype: np.dtype) -> float:
    return 8 * np.finfo(dtype).eps * case.scale


def penalty(case: Case, x: np.ndarray) -> float:
    value = case.penalty(x)
    return value if isinstance(value, float) else float(value.value)


def vector(tree: Any) -> jax.Array:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@functools.cache
def on_vectors(case: Case, name: str) -> Callable[..., jax.Array]:
    """Return a method of the geometry as a compiled function of flat arrays, vectors to vectors."""
    method = getattr(case.geometry, name)

    def function(x: jax.Array) -> jax.Array:
        result = method(case.pack(x, x.dtype))
        return vector(result) if jax.tree.leaves(result)[0].ndim else result

    return jax.jit(function)


@functools.cache
def stepper(case: Case, dtype: np.dtype) -> Callable[..., tuple[np.ndarray, Any, np.ndarray]]:
    """Return a function of (y, g, s) that gives x⁺, and ∇R at y and at x⁺."""

    @jax.jit
    def step(y: jax.Array, g: jax.Array, size: jax.Array) -> tuple[Any, Any, Any]:
        mirror = case.geometry.to_mirror(case.pack(y, dtype))
        stepped = case.geometry.step(mirror, case.pack(g, dtype), size)
        return case.geometry.to_point(stepped), mirror, stepped

    def function(y: np.ndarray, g: np.ndarray, size: float) -> tuple[Any, Any, Any]:
        point, mirror, stepped = step(jnp.asarray(y, dtype), jnp.asarray(g, dtype), size)
        return point, case.slope(flat(mirror)), case.slope(flat(stepped))

    return function


def test_steps_are_feasible_and_keep_the_dtype(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    step, violation = stepper(case, dtype), case.geometry.violation
    for y in case.starts(rng, 10):
        for size in STEP_SIZES:
            point, _, _ = step(y, rng.normal(size=case.size), size)
            assert {leaf.dtype for leaf in jax.tree.leaves(point)} == {dtype}
            assert float(violation(point)) <= tolerance(case, dtype)


def test_projections_are_feasible_and_idempotent(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(1)
    project = on_vectors(case, "project")
    for scale in [1e-3, 1.0, 1e4]:
        once = project(jnp.asarray(scale * rng.normal(size=case.size), dtype))
        assert once.dtype == dtype
        assert float(on_vectors(case, "violation")(once)) <= tolerance(case, dtype)
        np.testing.assert_allclose(
            project(once), once, rtol=1e-6, atol=4 * np.finfo(dtype).eps * case.scale
        )


def test_projections_leave_members_where_they_are(case: Case, dtype: np.dtype) -> None:
    project = on_vectors(case, "project")
    for y in case.members(np.random.default_rng(2), 20):
        member = jnp.asarray(y, dtype)
        np.testing.assert_allclose(project(member), member, atol=tolerance(case, dtype))


def test_euclidean_projections_make_obtuse_angles_and_do_not_expand(
    case: Case, dtype: np.dtype
) -> None:
    if not case.euclidean:
        return
    rng = np.random.default_rng(3)
    members = case.members(rng, 50)
    project = on_vectors(case, "project")
    a, b = rng.normal(size=(2, 30, case.size)) * 3
    for first, second in zip(a, b, strict=True):
        p, q = (np.asarray(project(jnp.asarray(v, dtype)), np.float64) for v in (first, second))
        reach = np.abs(first).sum() * case.scale * case.size
        assert np.max((members - p) @ (first - p)) <= 8 * np.finfo(dtype).eps * reach
        assert np.linalg.norm(p - q) <= np.linalg.norm(first - second) + tolerance(case, dtype)


def test_steps_are_optimal(case: Case, dtype: np.dtype) -> None:
    """⟨s·g + ∇R(x⁺) − ∇R(y), z − x⁺⟩ + s·(h(z) − h(x⁺)) ≥ 0 for members z."""
    rng = np.random.default_rng(4)
    members = case.members(rng, 50)
    penalties = np.array([penalty(case, z) for z in members])
    step = stepper(case, dtype)
    for y in case.starts(rng, 10):
        for size in [1e-3, 0.3, 1.0, 30.0]:
            gradient = rng.normal(size=case.size)
            point, before, after = step(y, gradient, size)
            x = flat(point)
            force = size * gradient + after - before
            slack = (members - x) @ force + size * (penalties - penalty(case, x))
            magnitude = (np.abs(size * gradient).max() + np.abs(before).max()) * case.scale
            magnitude += size * np.abs(penalties).max()
            assert slack.min() >= -8 * np.finfo(dtype).eps * magnitude * case.size


def test_the_mirror_map_is_1_strongly_convex_in_the_norm(case: Case, dtype: np.dtype) -> None:
    """⟨∇R(x) − ∇R(y), x − y⟩ ≥ ‖x − y‖² for starts, equal for Euclidean geometries."""
    rng = np.random.default_rng(5)
    to_mirror, squared_norm = on_vectors(case, "to_mirror"), on_vectors(case, "squared_norm")
    for pair in zip(case.starts(rng, 50), case.starts(rng, 50), strict=True):
        x, y = (jnp.asarray(point, dtype) for point in pair)
        apart = np.asarray(x, np.float64) - np.asarray(y, np.float64)
        slopes = [case.slope(np.asarray(to_mirror(point), np.float64)) for point in (x, y)]
        least = float(squared_norm(jnp.asarray(apart, dtype)))
        slack = (slopes[0] - slopes[1]) @ apart - least
        rounding = np.finfo(dtype).eps * (np.abs(slopes).max() * np.abs(apart).sum() + least)
        assert slack >= -100 * rounding
        assert not case.euclidean or slack <= 100 * rounding


def divergence(case: Case, x: np.ndarray, y: np.ndarray) -> float:
    """Return D_R(x, y) with ∇R(y) by central differences."""
    h = 1e-6
    steps = np.eye(case.size) * h
    slope = [(case.mirror_map(y + e) - case.mirror_map(y - e)) / (2 * h) for e in steps]
    return case.mirror_map(x) - case.mirror_map(y) - float(np.dot(slope, x - y))


def test_the_diameter_bounds_the_divergence_and_is_attained_where_exact(
    case: Case, dtype: np.dtype
) -> None:
    like = case.pack(np.zeros(case.size), dtype)
    D = float(case.geometry.diameter(like))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), like)
    np.testing.assert_allclose(float(case.geometry.diameter(shapes)), D, rtol=1e-6)
    rng = np.random.default_rng(6)
    members = case.members(rng, 60)
    if case.extremes:
        pairs = [*zip(members, case.members(rng, 60), strict=True), case.extremes]
    elif case.extremes is None:
        center = flat(case.geometry.interior_point(like))
        pairs = [(x, center) for x in members]
    else:
        return
    divergences = [divergence(case, x, y) for x, y in pairs]
    assert max(divergences) <= D**2 * (1 + 1e-5)
    assert not case.attained or max(divergences) >= D**2 * (1 - 1e-5)


def test_hoelder_holds_between_members(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(7)
    squared_dual_norm = on_vectors(case, "squared_dual_norm")
    for x, y in zip(case.members(rng, 50), case.members(rng, 50), strict=True):
        g = rng.normal(size=case.size)
        dual = np.sqrt(float(squared_dual_norm(jnp.asarray(g, dtype))))
        assert g @ (x - y) <= dual * case.norm(x - y) + 100 * tolerance(case, dtype)


def test_the_norm_is_that_of_its_formula(case: Case, dtype: np.dtype) -> None:
    rng = np.random.default_rng(19)
    squared_norm = on_vectors(case, "squared_norm")
    for x, y in zip(case.members(rng, 10), case.members(rng, 10), strict=True):
        value = squared_norm(jnp.asarray(x - y, dtype))
        assert value.shape == ()
        np.testing.assert_allclose(value, case.norm(x - y) ** 2, rtol=1e-5)


def test_the_dual_norm_ignores_what_is_constant_on_the_set(case: Case, dtype: np.dtype) -> None:
    """Adding to g a vector normal to all differences of members changes nothing."""
    members = case.members(np.random.default_rng(8), 40)
    if case.normal is None:
        assert np.abs((members - members[0]) @ np.ones(case.size)).max() > 1e-9
        return
    assert np.abs((members - members[0]) @ case.normal).max() <= 1e-9
    g = np.random.default_rng(9).normal(size=case.size)
    squared_dual_norm = on_vectors(case, "squared_dual_norm")
    plain = squared_dual_norm(jnp.asarray(g, dtype))
    shifted = squared_dual_norm(jnp.asarray(g + 3 * case.normal, dtype))
    np.testing.assert_allclose(plain, shifted, rtol=100 * np.finfo(dtype).eps)
    huge = jnp.asarray(8 * g + 1e8 * case.normal, dtype)  # as rounded, whatever that leaves of g
    left = np.asarray(huge, np.float64) - 1e8 * case.normal
    np.testing.assert_allclose(
        squared_dual_norm(huge), squared_dual_norm(jnp.asarray(left, dtype)), rtol=1e-4
    )


def test_the_dual_norm_is_attained(case: Case, dtype: np.dtype) -> None:
    """d = ∇(‖g‖*²/2) lies in the tangent space, and has ⟨g, d⟩ = ‖g‖*² and ‖d‖ = ‖g‖*."""
    half_square = jax.value_and_grad(lambda g: on_vectors(case, "squared_dual_norm")(g) / 2)
    for g in np.random.default_rng(20).normal(size=(5, case.size)):
        value, slope = half_square(jnp.asarray(g, dtype))
        direction = np.asarray(slope, np.float64)
        np.testing.assert_allclose(direction @ g, 2 * value, rtol=1e-4)
        np.testing.assert_allclose(case.norm(direction), np.sqrt(2 * value), rtol=1e-4)
        if case.normal is not None:
            assert abs(direction @ case.normal) <= 1e-5 * np.abs(direction).sum()


def test_linear_minimization_beats_1000_members(case: Case, dtype: np.dtype) -> None:
    """⟨g, v⟩ + h(v) is least at the vertex; where there is no minimum, that is an error."""
    rng = np.random.default_rng(10)
    if case.unbounded:
        with pytest.raises(ValueError, match="no linear minimization oracle"):
            on_vectors(case, "minimize_linear")(jnp.ones(case.size, dtype))
        return
    members = case.members(rng, 1000)
    penalties = np.array([penalty(case, z) for z in members])
    minimize_linear = on_vectors(case, "minimize_linear")
    for g in [*rng.normal(size=(10, case.size)), 0.1 * rng.normal(size=case.size)]:
        vertex = minimize_linear(jnp.asarray(g, dtype))
        assert vertex.dtype == dtype
        assert float(on_vectors(case, "violation")(vertex)) <= tolerance(case, dtype)
        slack = 100 * np.finfo(dtype).eps * case.scale
        v = np.asarray(vertex, np.float64)
        assert v @ g + penalty(case, v) <= (members @ g + penalties).min() + slack


def test_linear_minimization_of_zero_is_a_member(case: Case, dtype: np.dtype) -> None:
    if case.unbounded:
        return
    vertex = on_vectors(case, "minimize_linear")(jnp.zeros(case.size, dtype))
    assert float(on_vectors(case, "violation")(vertex)) <= tolerance(case, dtype)


def test_the_interior_point_minimizes_the_mirror_map_and_takes_shapes(
    case: Case, dtype: np.dtype
) -> None:
    params = case.pack(np.zeros(case.size), dtype)
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), params)
    center = case.geometry.interior_point(like)
    assert jax.tree.structure(center) == jax.tree.structure(params)
    assert {leaf.dtype for leaf in jax.tree.leaves(center)} == {dtype}
    assert float(case.geometry.violation(center)) <= tolerance(case, dtype)
    if case.center is not None:
        np.testing.assert_allclose(flat(center), case.center, rtol=1e-6)
        return
    lowest = case.mirror_map(flat(center))
    values = [case.mirror_map(x) for x in case.members(np.random.default_rng(11), 100)]
    assert lowest <= min(values) + tolerance(case, dtype)


def test_the_violation_measures_the_distance_out(case: Case, dtype: np.dtype) -> None:
    member = jnp.asarray(case.members(np.random.default_rng(12), 2)[1], dtype)
    violation = on_vectors(case, "violation")
    assert float(violation(member)) <= tolerance(case, dtype)
    assert jnp.isnan(violation(member.at[1].set(jnp.nan)))
    if jnp.all(violation(1e9 * member) == 0):  # the whole space, or a cone
        return
    outward = jnp.asarray(np.random.default_rng(13).normal(size=case.size), dtype)
    far = jnp.asarray(10 * case.scale * case.size, dtype) * outward
    nearest = on_vectors(case, "project")(far)
    beyond = nearest + (far - nearest) / jnp.linalg.norm(far - nearest)
    assert float(violation(beyond)) > 0.5 / case.size


def test_the_penalty_is_that_of_its_formula(case: Case, dtype: np.dtype) -> None:
    for x in case.members(np.random.default_rng(14), 5):
        value = on_vectors(case, "penalty")(jnp.asarray(x, dtype))
        assert value.shape == ()
        np.testing.assert_allclose(value, penalty(case, x), rtol=1e-5, atol=1e-6)


OPERATIONS = [
    "project",
    "squared_dual_norm",
    "squared_norm",
    "diameter",
    "violation",
    "penalty",
]


def test_a_tree_is_one_vector(case: Case) -> None:
    rng = np.random.default_rng(15)
    y, g = case.starts(rng, 2)[1], rng.normal(size=case.size)

    @jax.jit
    def everything(y: Any, g: Any) -> dict[str, Any]:
        mirror = case.geometry.to_mirror(y)
        results = {name: getattr(case.geometry, name)(g) for name in OPERATIONS}
        if not case.unbounded:
            results["minimize_linear"] = case.geometry.minimize_linear(g)
        results["step"] = case.geometry.step(mirror, g, 0.7)
        return results | {"to_point": case.geometry.to_point(results["step"])}

    plain, tree = (
        everything(p(y, np.float32), p(g, np.float32)) for p in (case.pack, case.pack_tree)
    )
    for name, expected in plain.items():
        np.testing.assert_allclose(flat(tree[name]), flat(expected), rtol=1e-5, atol=1e-6)
    for name in ("project", "to_point"):
        assert jax.tree.structure(tree[name]) == jax.tree.structure(case.pack_tree(y, np.float32))


def test_mixed_dtypes_are_kept_leaf_by_leaf(case: Case) -> None:
    rng = np.random.default_rng(16)
    leaves, structure = jax.tree.flatten(case.pack_tree(rng.normal(size=case.size), jnp.float32))
    halves = [jnp.bfloat16, jnp.float32, jnp.float16][-len(leaves) :]
    mixed = [leaf.astype(to) for leaf, to in zip(leaves, halves, strict=True)]
    tree = jax.tree.unflatten(structure, mixed)
    projected = jax.jit(case.geometry.project)(tree)
    assert [leaf.dtype for leaf in jax.tree.leaves(projected)] == halves
    assert float(case.geometry.violation(projected)) <= 8 * 2**-7 * case.scale


def test_an_entrywise_step_is_the_step(case: Case) -> None:
    dtype = np.dtype("float32")
    rng = np.random.default_rng(23)
    mirror = case.geometry.to_mirror(case.pack(case.starts(rng, 1)[0], dtype))
    gradient = case.pack(3 * rng.normal(size=case.size), dtype)
    for size in STEP_SIZES:
        step = case.geometry.entrywise_step(mirror, gradient, size)
        if step is None:
            pytest.skip("its step does not go entry by entry")
        expected = case.geometry.step(mirror, gradient, size)
        np.testing.assert_allclose(
            flat(step(mirror, gradient)), flat(expected), rtol=1e-5, atol=2e-6 * case.scale
        )


def test_vmap_over_points_is_a_loop(case: Case) -> None:
    dtype = np.dtype("float32")
    rng = np.random.default_rng(17)
    starts = jnp.asarray(case.starts(rng, 6), dtype)
    gradients = jnp.asarray(3 * rng.normal(size=(6, case.size)), dtype)

    @jax.jit
    @jax.vmap
    def step(y: jax.Array, g: jax.Array) -> jax.Array:
        mirror = case.geometry.to_mirror(case.pack(y, dtype))
        stepped = case.geometry.step(mirror, case.pack(g, dtype), 0.7)
        return vector(case.geometry.to_point(stepped))

    single = stepper(case, dtype)
    for y, g, row in zip(starts, gradients, step(starts, gradients), strict=True):
        point, _, _ = single(y, g, 0.7)
        np.testing.assert_allclose(row, flat(point), rtol=1e-5, atol=2e-6 * case.scale)


def test_vmap_over_sizes_is_a_loop(case: Case) -> None:
    dtype = np.dtype("float32")
    point = case.pack(np.random.default_rng(18).normal(size=case.size), dtype)
    family = [case.scaled(k) for k in [0.5, 1.0, 2.0]]
    if not jax.tree.leaves(case.geometry):
        return
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(leaves, dtype), *family)
    batch = jax.jit(jax.vmap(lambda geometry: vector(geometry.project(point))))(stacked)
    for geometry, row in zip(family, batch, strict=True):
        np.testing.assert_allclose(
            row, flat(geometry.project(point)), rtol=1e-5, atol=2e-6 * case.scale
        )


@pytest.mark.usefixtures("x64")
def test_derivatives_equal_finite_differences(case: Case) -> None:
    """Forward and reverse, in the point, the gradient, the step size and the radius."""
    rng = np.random.default_rng(19)
    y = case.starts(rng, 30)[-2]
    if case.inner is None:  # away from the kinks that members sit on
        y = y + 0.1 * rng.normal(size=case.size)
    weights, gradient = rng.normal(size=(2, case.size))

    def stepped(y: jax.Array, g: jax.Array, size: jax.Array, factor: jax.Array) -> jax.Array:
        geometry = jax.tree.map(lambda leaf: leaf * factor, case.geometry)
        mirror = geometry.to_mirror(geometry.project(case.pack(y, float)))
        point = geometry.to_point(geometry.step(mirror, case.pack(g, float), size))
        return jnp.vdot(weights, vector(point))

    at = (y, gradient, np.array(0.7), np.array(1.1))
    directions = [rng.normal(size=value.shape) for value in at]
    assert_derivatives(stepped, at, directions, atol=1e-7)


@pytest.mark.slow
def test_derivatives_are_finite_everywhere(case: Case) -> None:
    """At kinks, ties, zeros and vertices, in forward and reverse mode, in float32."""
    dtype = jnp.float32
    zero, one = jnp.zeros(case.size, dtype), jnp.ones(case.size, dtype)
    start = case.geometry.interior_point(case.pack(zero, dtype))
    vertex = jnp.asarray(case.members(np.random.default_rng(20), 1)[0], dtype)
    basis = jnp.eye(case.size, dtype=dtype)
    mirror = case.geometry.to_mirror(start)

    def project(x: jax.Array) -> jax.Array:
        return vector(case.geometry.project(case.pack(x, dtype)))

    def step(g: jax.Array) -> jax.Array:
        point = case.geometry.to_point(case.geometry.step(mirror, case.pack(g, dtype), 1.0))
        return jnp.append(vector(point), case.geometry.squared_dual_norm(case.pack(g, dtype)))

    def jacobians(function: Callable, x: jax.Array) -> list[jax.Array]:
        value, forward = jax.linearize(function, x)
        reverse = jax.linear_transpose(forward, x)
        outputs = jnp.eye(value.size, dtype=dtype)
        return [jax.vmap(forward)(basis), jax.vmap(lambda row: reverse(row)[0])(outputs)]

    @jax.jit
    def both(x: jax.Array, g: jax.Array) -> list[jax.Array]:
        return [*jacobians(project, x), *jacobians(step, g)]

    for point in [zero, one, vector(start), vertex]:
        for jacobian in both(point, one if point is zero else zero):
            assert np.isfinite(jacobian).all()


def test_a_geometry_is_frozen_data_that_crosses_jit(case: Case) -> None:
    traces = []

    @jax.jit
    def project(geometry: ux.Geometry, point: jax.Array) -> Any:
        traces.append(None)
        return geometry.project(case.pack(point, point.dtype))

    point = jnp.ones(case.size)
    first = project(case.geometry, point)
    project(case.scaled(2.0), point)
    assert len(traces) == 1
    direct = case.geometry.project(case.pack(point, point.dtype))
    np.testing.assert_allclose(flat(first), flat(direct), rtol=1e-5, atol=1e-6)
    assert not callable(case.geometry)
    with pytest.raises(AttributeError):
        case.geometry.radius = 3.0  # type: ignore[attr-defined]
    leaves, structure = jax.tree.flatten(case.geometry)
    assert repr(jax.tree.unflatten(structure, leaves)) == repr(case.geometry)
