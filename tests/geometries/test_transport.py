"""Scaling to marginals at the edge of what floats can do, and optimal plans against solvers."""

from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog

from tests.sampling import by_default
from unixgrad_jax.geometries._transport import Birkhoff, TransportPolytope


def random_marginals(rng: np.random.Generator, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw even or very uneven marginals with a total of 2.5."""
    concentration = rng.choice([0.3, 5.0], size=2)
    rows = rng.dirichlet(np.full(m, concentration[0])) + 1e-4
    columns = rng.dirichlet(np.full(n, concentration[1])) + 1e-4
    return 2.5 * rows / rows.sum(), 2.5 * columns / columns.sum()


def polytope(rows: np.ndarray, columns: np.ndarray, dtype: np.dtype) -> TransportPolytope:
    return TransportPolytope(jnp.asarray(rows, dtype), jnp.asarray(columns, dtype))


def excess(geometry: Any, point: Any, total: float) -> float:
    """Return the violation in units of ε·s."""
    return float(geometry.violation(point)) / (total * float(jnp.finfo(point.dtype).eps))


def test_a_plan_next_to_a_vertex_is_scaled_where_sinkhorn_needs_a_hundred_thousand_steps(
    dtype: np.dtype,
) -> None:
    geometry = Birkhoff()
    kernel = jnp.asarray([[0.0, np.log(0.1)], [np.log(1e-9), 0.0]], dtype)
    center = geometry.to_mirror(jnp.full((2, 2), 0.5, dtype))
    plan = np.asarray(geometry.to_point(geometry.step(center, -kernel, 2.0)), np.float64)
    off = np.sqrt(1e-10) / (1 + np.sqrt(1e-10))
    np.testing.assert_allclose(plan, [[1 - off, off], [off, 1 - off]], atol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("size", by_default([0.3, 1e4], [1e-3, 0.3, 30.0, 1e4]))
@pytest.mark.parametrize("shape", by_default([(12, 20)], [(2, 2), (12, 20)]))
def test_steps_of_every_size_are_finite_and_feasible_from_every_plan(
    shape: tuple[int, int], size: float, dtype: np.dtype
) -> None:
    rng = np.random.default_rng(0)
    degenerate = [2.5 * (rng.multinomial(12, np.ones(n) / n) + 0.01) for n in shape]
    degenerate = [sums / (sums.sum() / 2.5) for sums in degenerate]
    for draw, marginals in [
        (rng.normal, random_marginals(rng, *shape)),
        (lambda size: rng.integers(0, 3, size), degenerate),
        (rng.standard_cauchy, degenerate),
    ]:
        geometry = polytope(*marginals, dtype)
        mirror = geometry.to_mirror(geometry.interior_point())
        for scale in (size, 1.0, 1e3, size):  # from the center, then from what it led to
            mirror = geometry.step(mirror, jnp.asarray(draw(size=shape), dtype), 2.5 * scale)
            assert mirror.dtype == dtype
            assert np.isfinite(mirror).all()
            assert excess(geometry, geometry.to_point(mirror), 2.5) <= 8


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, 1e30])
def test_projections_are_feasible_positive_and_idempotent(scale: float, dtype: np.dtype) -> None:
    rng = np.random.default_rng(1)
    geometry = polytope(*random_marginals(rng, 6, 9), dtype)
    once = geometry.project(jnp.asarray(scale * rng.normal(size=(6, 9)), dtype))
    assert jnp.all(once > 0)
    assert excess(geometry, once, 2.5) <= 8
    np.testing.assert_allclose(
        geometry.project(once), once, atol=4 * np.finfo(dtype).eps * 2.5, rtol=0
    )


def test_projections_leave_members_and_vertices_where_they_are(dtype: np.dtype) -> None:
    rng = np.random.default_rng(2)
    geometry = polytope(*random_marginals(rng, 6, 9), dtype)
    for _ in range(5):
        vertex = geometry.minimize_linear(jnp.asarray(rng.normal(size=(6, 9)), dtype))
        for share in (0.0, 0.5, 1.0):
            member = share * vertex + (1 - share) * geometry.interior_point()
            np.testing.assert_allclose(
                geometry.project(member), member, atol=8 * np.finfo(dtype).eps * 2.5, rtol=0
            )


def test_projections_take_infinite_entries_as_limits_and_show_nan() -> None:
    geometry = Birkhoff()
    inf = np.inf
    limit = geometry.project(jnp.array([[inf, 0.0, 1.0], [0.0, inf, -inf], [3.0, 2.0, inf]]))
    np.testing.assert_allclose(limit, np.eye(3), atol=1e-6)
    empty = geometry.project(jnp.full((3, 3), -inf))
    np.testing.assert_allclose(empty, np.full((3, 3), 1 / 3), rtol=1e-6)
    assert jnp.isnan(geometry.project(jnp.eye(3).at[1, 2].set(jnp.nan))).any()


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # than the 1e-12 asked for
@pytest.mark.usefixtures("x64")
def test_steps_equal_the_solution_of_clarabel() -> None:
    rng = np.random.default_rng(3)
    for m, n in 10 * [(2, 2), (3, 4)]:
        rows, columns = random_marginals(rng, m, n)
        geometry = polytope(rows, columns, np.dtype("float64"))
        anchor = np.asarray(geometry.project(rng.uniform(size=(m, n))))
        gradient, size = rng.normal(size=(m, n)), 10 ** rng.uniform(-1, 1)
        plan = cp.Variable((m, n))
        cost = cp.sum(cp.multiply(size * gradient, plan)) + 2.5 * cp.sum(cp.kl_div(plan, anchor))
        sums = [cp.sum(plan, axis=1) == rows, cp.sum(plan, axis=0) == columns]
        accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
        cp.Problem(cp.Minimize(cost), sums).solve(solver="CLARABEL", **accuracy)
        stepped = geometry.to_point(geometry.step(geometry.to_mirror(anchor), gradient, size))
        np.testing.assert_allclose(stepped, plan.value, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_derivatives_are_those_of_the_implicit_function() -> None:
    """In the point, the mirror, the gradient, the step size and the marginals."""
    rng = np.random.default_rng(4)
    shape = (3, 4)
    weights = jnp.asarray(rng.normal(size=(3, *shape)))
    rows, columns = jnp.array([0.5, 1.2, 0.8]), jnp.array([0.9, 0.4, 0.7, 0.5])
    point = jnp.asarray(rng.uniform(0.1, 0.6, size=shape))
    at = (point, jnp.asarray(rng.normal(size=(2, *shape))), jnp.asarray(0.7), rows, columns)

    def stepped(point: Any, moves: Any, size: Any, rows: Any, columns: Any) -> jax.Array:
        geometry = TransportPolytope(rows, columns)
        member = geometry.project(point)
        mirror = geometry.step(geometry.to_mirror(member) + moves[0], moves[1], size)
        return jnp.vdot(weights, jnp.stack([member, mirror, geometry.to_point(mirror)]))

    forward = jax.jit(lambda at, tangents: jax.jvp(stepped, at, tangents))
    reverse = jax.jit(jax.grad(stepped, argnums=(0, 1, 2, 3, 4)))(*at)
    still = tuple(jnp.zeros_like(value) for value in at)
    for index, value in enumerate(at):
        direction = jnp.asarray(rng.normal(size=value.shape))
        if index > 2:  # the marginals keep their total
            direction = direction - direction.mean()
        tangents = (*still[:index], direction, *still[index + 1 :])
        h = 1e-4
        values = [
            forward(tuple(a + k * h * t for a, t in zip(at, tangents, strict=True)), still)[0]
            for k in (-2, -1, 1, 2)
        ]
        expected = np.dot([1, -8, 8, -1], np.asarray(values)) / (12 * h)
        np.testing.assert_allclose(forward(at, tangents)[1], expected, atol=1e-7)
        np.testing.assert_allclose(jnp.vdot(reverse[index], direction), expected, atol=1e-7)


def test_derivatives_are_finite_at_vertices_ties_and_huge_steps(dtype: np.dtype) -> None:
    geometry = Birkhoff()
    gradient = jnp.asarray(np.random.default_rng(6).normal(size=(3, 3)), dtype)
    center = geometry.interior_point(gradient)
    vertex = geometry.minimize_linear(gradient)

    def reached(point: Any, gradient: Any, size: Any) -> tuple:
        member = geometry.project(point)
        mirror = geometry.step(geometry.to_mirror(member), gradient, size)
        return member, mirror, geometry.to_point(mirror), geometry.squared_dual_norm(gradient)

    transform = jax.jacrev if dtype == np.float32 else jax.jacfwd
    slopes = jax.jit(transform(reached, argnums=(0, 1, 2)))
    for point in (jnp.zeros_like(center), center, vertex, 1e4 * gradient):
        for g in (jnp.zeros_like(center), gradient):
            for size in (0.0, 1.0, 1e5):
                for leaf in jax.tree.leaves(slopes(point, g, size)):
                    assert np.isfinite(leaf).all()
    np.testing.assert_array_equal(jax.jacrev(geometry.minimize_linear)(gradient), 0)


@pytest.mark.parametrize("shape", [(1, 4), (8, 8), (40, 30)])
def test_plans_cost_as_little_as_those_of_a_linear_programming_solver(
    shape: tuple[int, int], dtype: np.dtype
) -> None:
    rng = np.random.default_rng(7)
    m, n = shape
    even = np.full(m, 2.5 / m), np.full(n, 2.5 / n)
    sums = np.vstack([np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))])
    sources = rng.normal(size=(m, 1)), rng.normal(size=n)
    for cost, (rows, columns) in [
        (rng.normal(size=shape), random_marginals(rng, m, n)),
        (rng.integers(0, 3, size=shape), random_marginals(rng, m, n)),
        ((sources[0] - sources[1]) ** 2, random_marginals(rng, m, n)),
        (1e4 * rng.normal(size=shape), even),
        (rng.integers(-1, 1, size=shape), even),
        (np.zeros(shape), even),
    ]:
        cost = np.asarray(cost, np.float64)
        geometry = polytope(rows, columns, dtype)
        plan = geometry.minimize_linear(jnp.asarray(cost, dtype))
        assert excess(geometry, plan, 2.5) <= 8
        solved = linprog(cost.ravel(), A_eq=sums[1:], b_eq=np.r_[rows, columns][1:])
        value = np.sum(np.asarray(plan, np.float64) * cost)
        allowed = max(8 * np.finfo(dtype).eps, 1e-9) * 2.5 * max(np.abs(cost).max(), 1e-9)
        np.testing.assert_allclose(value, solved.fun, atol=allowed, rtol=0)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_assignments_equal_those_of_scipy(n: int) -> None:
    rng = np.random.default_rng(8)
    for cost in (rng.normal(size=(n, n)), rng.integers(0, 4, size=(n, n)), np.zeros((n, n))):
        plan = np.asarray(Birkhoff().minimize_linear(jnp.asarray(cost, jnp.float32)))
        assert set(np.unique(plan)) <= {0, 1}
        assert Birkhoff().violation(plan) == 0
        best = cost[linear_sum_assignment(cost)].sum()
        np.testing.assert_allclose(np.sum(plan * cost), best, rtol=1e-5, atol=1e-5)


def test_plans_avoid_infinite_costs_and_are_nan_where_they_cannot() -> None:
    inf = np.inf
    cost = jnp.array([[inf, 1.0, 9.0], [0.0, inf, inf], [inf, 0.0, 5.0]])
    np.testing.assert_array_equal(
        Birkhoff().minimize_linear(cost), [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    )
    blocked = jnp.array([[inf, 1.0, inf], [0.0, inf, inf], [inf, 0.0, inf]])
    assert jnp.isnan(Birkhoff().minimize_linear(blocked)).all()
    crowded = jnp.array([[0.0, inf, inf], [0.0, inf, inf], [0.0, 1.0, 2.0]])
    assert jnp.isnan(Birkhoff().minimize_linear(crowded)).all()
    assert jnp.isnan(Birkhoff().minimize_linear(jnp.eye(3).at[0, 1].set(jnp.nan))).all()


def test_a_step_that_leaves_no_plan_is_nan() -> None:
    geometry = Birkhoff()
    center = geometry.to_mirror(jnp.full((3, 3), 1 / 3))
    zero = jnp.zeros((3, 3))
    some = geometry.step(center, zero.at[0, 1].set(jnp.inf), 1.0)
    assert geometry.to_point(some)[0, 1] == 0
    assert excess(geometry, geometry.to_point(some), 3.0) <= 8
    row = geometry.step(center, zero.at[0].set(jnp.inf), 1.0)
    crowded = geometry.step(center, zero.at[:2, 1:].set(jnp.inf), 1.0)
    unknown = geometry.step(center, zero.at[0, 1].set(jnp.nan), 1.0)
    for mirror in (row, crowded, unknown):
        assert jnp.isnan(mirror).any()
        assert jnp.isnan(geometry.violation(geometry.to_point(mirror)))


def test_nan_shows_in_every_row_of_a_batch() -> None:
    batch = jnp.full((600, 4, 4), 0.25).at[7].set(jnp.nan)
    for method in (Birkhoff().violation, Birkhoff().squared_dual_norm):
        np.testing.assert_array_equal(jnp.isnan(jax.vmap(method)(batch)), np.arange(600) == 7)


def exact_dual_norm(gradient: np.ndarray) -> float:
    m, n = gradient.shape
    shifts = np.hstack([np.kron(np.eye(m), np.ones((n, 1))), np.kron(np.ones((m, 1)), np.eye(n))])
    bound = np.ones((m * n, 1))
    g = gradient.ravel()
    return linprog(
        np.r_[np.zeros(m + n), 1],
        A_ub=np.vstack([np.hstack([-shifts, -bound]), np.hstack([shifts, -bound])]),
        b_ub=np.r_[-g, g],
        bounds=(None, None),
    ).fun


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", [(2, 2), (3, 6), (8, 8), (15, 10)])
def test_the_dual_norm_bounds_that_of_a_linear_program_closely(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(9)
    geometry = TransportPolytope(1.0 / shape[0], 1.0 / shape[1])
    for gradient in [
        *rng.normal(size=(5, *shape)),
        *rng.standard_cauchy(size=(3, *shape)),
        *rng.integers(0, 3, size=(3, *shape)),
        np.eye(*shape),
    ]:
        norm = np.sqrt(geometry.squared_dual_norm(gradient))
        exact = exact_dual_norm(np.asarray(gradient, np.float64))
        assert exact * (1 - 1e-9) <= norm <= 1.02 * exact + 1e-12
        shifted = gradient + rng.normal(size=(shape[0], 1)) + rng.normal(size=(1, shape[1]))
        np.testing.assert_allclose(np.sqrt(geometry.squared_dual_norm(shifted)), norm, atol=1e-12)


def test_the_diameter_is_the_range_of_the_entropy_from_the_center(dtype: np.dtype) -> None:
    like = jax.ShapeDtypeStruct((5, 5), dtype)
    np.testing.assert_allclose(Birkhoff().diameter(like), 5 * np.sqrt(np.log(5)), rtol=1e-6)
    rng = np.random.default_rng(10)
    rows, columns = random_marginals(rng, 4, 7)
    geometry = polytope(rows, columns, dtype)
    center = np.outer(rows, columns) / 2.5
    bound = float(geometry.diameter(geometry.interior_point())) ** 2
    for _ in range(20):
        vertex = np.asarray(geometry.minimize_linear(jnp.asarray(rng.normal(size=(4, 7)), dtype)))
        mass = vertex > 0
        assert 2.5 * np.sum(vertex[mass] * np.log(vertex[mass] / center[mass])) <= bound


def test_birkhoff_is_the_transport_polytope_with_sums_of_one() -> None:
    g = jnp.asarray(np.random.default_rng(11).normal(size=(3, 3)))
    plans, matrices = TransportPolytope(1.0, 1.0), Birkhoff()
    for method in ("minimize_linear", "diameter", "violation", "interior_point"):
        ours, theirs = getattr(matrices, method)(g), getattr(plans, method)(g)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    mirror = matrices.to_mirror(matrices.interior_point(g))
    np.testing.assert_allclose(
        plans.step(mirror, g, 2.0), matrices.step(mirror, g, 2.0), rtol=1e-5, atol=1e-5
    )
    assert float(matrices.penalty(g)) == 0


def test_mapping_over_gradients_sizes_and_marginals_equals_a_loop() -> None:
    dtype = np.dtype("float32")
    rng = np.random.default_rng(12)
    marginals = [random_marginals(rng, 3, 5) for _ in range(4)]
    rows, columns = (jnp.asarray(np.stack(part), dtype) for part in zip(*marginals, strict=True))
    gradients = jnp.asarray(rng.normal(size=(4, 3, 5)), dtype)
    sizes = jnp.asarray([1e-2, 1.0, 30.0, 1e4], dtype)

    def reached(rows: Any, columns: Any, gradient: Any, size: Any) -> tuple:
        geometry = TransportPolytope(rows, columns)
        mirror = geometry.to_mirror(geometry.interior_point())
        plan = geometry.to_point(geometry.step(mirror, gradient, size))
        return plan, geometry.minimize_linear(gradient)

    mapped = jax.jit(jax.vmap(reached))(rows, columns, gradients, sizes)
    one = jax.jit(reached)
    for i in range(4):
        alone = one(rows[i], columns[i], gradients[i], sizes[i])
        for a, b in zip(jax.tree.map(lambda leaf, i=i: leaf[i], mapped), alone, strict=True):
            np.testing.assert_allclose(a, b, atol=32 * np.finfo(dtype).eps)
    axes = TransportPolytope(row_sums=None, column_sums=0)
    columns = jnp.stack([columns[0], columns[0][::-1]])
    centers = jax.vmap(lambda plans: plans.interior_point(), in_axes=(axes,))(
        TransportPolytope(rows[0], columns)
    )
    assert centers.shape == (2, 3, 5)


@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_kept_and_sums_are_right_in_it(half: type) -> None:
    rng = np.random.default_rng(13)
    geometry = polytope(*random_marginals(rng, 8, 12), np.dtype("float32"))
    gradient = jnp.asarray(rng.normal(size=(8, 12)), half)
    point = geometry.project(gradient)
    mirror = geometry.step(geometry.to_mirror(point), gradient, 10.0)
    for plan in (point, geometry.to_point(mirror)):
        assert plan.dtype == half
        assert excess(geometry, plan, 2.5) <= 8


def test_a_matrix_of_side_200_takes_steps_of_every_size() -> None:
    rng = np.random.default_rng(14)
    geometry = Birkhoff()
    mirror = geometry.to_mirror(geometry.interior_point(jnp.zeros((200, 200), jnp.float32)))
    for size in (1.0, 100.0, 1e4):
        gradient = jnp.asarray(rng.normal(size=(200, 200)), jnp.float32)
        mirror = geometry.step(mirror, gradient, 200 * size)
        assert excess(geometry, geometry.to_point(mirror), 200.0) <= 8


def test_params_are_any_tree_with_one_matrix_or_none() -> None:
    geometry = TransportPolytope(np.array([1.0, 2.0]), np.array([1.0, 1.0, 1.0]))
    matrix = jnp.arange(6.0).reshape(2, 3)
    tree = geometry.project({"plan": matrix, "none": None})
    np.testing.assert_array_equal(tree["plan"], geometry.project(matrix))
    assert geometry.interior_point().shape == (2, 3)
    np.testing.assert_allclose(geometry.interior_point({"plan": matrix})["plan"][1], 2 / 3)
    assert geometry.project(jnp.ones((2, 3), int)).dtype == jnp.result_type(float)
    for empty in ({}, None, {"a": None}):
        point = geometry.project(empty)
        assert jax.tree.structure(point) == jax.tree.structure(empty)
        mirror = geometry.step(geometry.to_mirror(point), empty, 1.0)
        assert jax.tree.leaves(geometry.to_point(mirror)) == []
        geometry.minimize_linear(empty)
        assert float(geometry.violation(empty)) == 0
        assert float(geometry.squared_dual_norm(empty)) == 0
        assert float(geometry.diameter(empty)) == 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TransportPolytope(0.0, 1.0), "row_sums must be positive and finite, not 0.0"),
        (lambda: TransportPolytope(1.0, np.array([1.0, np.nan])), "column_sums must be positive"),
        (lambda: TransportPolytope(np.ones(2), np.ones(3)), r"totals are 2.0 and 3.0"),
        (lambda: TransportPolytope(1.0, 1.0).diameter(np.ones((2, 3))), "totals are 2.0 and 3.0"),
        (lambda: TransportPolytope(1.0, 1.0).interior_point(), "does not know the shape"),
        (lambda: Birkhoff().interior_point(), "does not know the shape"),
        (lambda: Birkhoff().project(np.ones((2, 3))), r"square.*\(2, 3\)"),
        (lambda: Birkhoff().project(np.ones(4)), r"\(4,\).*Batched"),
        (lambda: Birkhoff().project(np.ones((0, 0))), "no plan of shape"),
        (lambda: Birkhoff().diameter([np.ones((2, 2)), np.ones((2, 2))]), "Batched.*Product"),
        (
            lambda: TransportPolytope(np.ones(3), 1.0).project(np.ones((4, 3))),
            r"row_sums must be a scalar or have shape \(4,\).*\(3,\)",
        ),
    ],
)
def test_bad_marginals_and_params_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_totals_that_differ_show_as_nan_where_they_cannot_be_checked() -> None:
    project = jax.jit(lambda plans: plans.project(jnp.ones((2, 3))))
    assert jnp.isnan(project(TransportPolytope(1.0, 1.0))).all()
    with pytest.raises(ValueError, match=r"the same total, but their totals are 2\.0 and 3\.0"):
        TransportPolytope(1.0, 1.0).project(jnp.ones((2, 3)))


@pytest.mark.parametrize("shape", by_default([(3, 4)], [(3, 3), (3, 4), (8, 5), (20, 20)]))
def test_a_thousand_random_plans_all_take_two_steps_of_any_length(shape: tuple[int, int]) -> None:
    """Steps from 1e-4 to 1e5, forth and half back, from plans of uneven entries and marginals."""
    rng = np.random.default_rng(32)
    rows, columns = (np.maximum(rng.dirichlet(np.ones(n)) * 3, 1e-3) for n in shape)
    columns *= rows.sum() / columns.sum()
    geometry = TransportPolytope(jnp.asarray(rows, "f"), jnp.asarray(columns, "f"))

    @jax.jit
    @jax.vmap
    def violation(y: jax.Array, g: jax.Array, size: jax.Array) -> jax.Array:
        forth = geometry.step(geometry.to_mirror(geometry.project(y)), g, size)
        return geometry.violation(geometry.to_point(geometry.step(forth, -g[::-1], 0.7 * size)))

    starts = jnp.asarray(rng.exponential(size=(1000, *shape)) ** 3, "f")
    gradients = jnp.asarray(rng.normal(size=(1000, *shape)), "f")
    sizes = jnp.asarray(10 ** rng.uniform(-4, 5, size=1000), "f")
    assert np.max(violation(starts, gradients, sizes)) <= 8 * np.finfo(np.float32).eps * 3
