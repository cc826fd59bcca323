"""Inputs that break other libraries' projections, each with its right answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux
from tests import oracle

SIMPLICES = [ux.Simplex(), ux.EntropicSimplex()]
ALL = [ux.L2Ball(), ux.Box(-1.0, 1.0), ux.Simplex(), ux.L1Ball(), ux.EntropicSimplex()]


def name(geometry: ux.Geometry) -> str:
    return type(geometry).__name__


def test_simplex_keeps_a_difference_of_8_on_top_of_1e8() -> None:
    point = jnp.array([-1e8, -1e8 + 8, -1e8], jnp.float32)
    np.testing.assert_array_equal(ux.Simplex().project(point), [0, 1, 0])


def test_simplex_steps_keep_the_digits_of_the_anchor_under_a_huge_common_gradient() -> None:
    anchor = jnp.array([0.2, 0.3, 0.5], jnp.float32)
    gradient = jnp.full(3, 3.0, jnp.float32)
    np.testing.assert_array_equal(ux.Simplex().step(anchor, gradient, 1e7), anchor)


def test_l1_ball_steps_keep_the_digits_of_the_anchor_under_a_huge_common_gradient() -> None:
    anchor = jnp.array([0.25, -0.25, 0.5], jnp.float32)
    gradient = -3.0 * jnp.sign(anchor)
    np.testing.assert_array_equal(ux.L1Ball().step(anchor, gradient, 1e7), anchor)


@pytest.mark.parametrize("geometry", SIMPLICES, ids=name)
def test_simplices_share_equally_between_four_entries_of_1e38(geometry: ux.Geometry) -> None:
    point = jnp.full(4, 1e38, jnp.float32)
    np.testing.assert_allclose(geometry.project(point), np.full(4, 0.25), rtol=1e-6)


def test_l1_ball_shares_equally_between_four_entries_of_1e38() -> None:
    point = jnp.array([1e38, -1e38, 1e38, -1e38], jnp.float32)
    np.testing.assert_allclose(ux.L1Ball().project(point), [0.25, -0.25, 0.25, -0.25], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-36, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e38])
def test_l2_ball_handles_every_scale_of_float32(scale: float) -> None:
    point = jnp.array([0.3 * scale, 0.4 * scale], jnp.float32)
    expected = np.array([0.6, 0.8]) if scale > 2 else np.array([0.3, 0.4]) * scale
    np.testing.assert_allclose(ux.L2Ball(1.0).project(point), expected, rtol=1e-6)
    relative = ux.L2Ball(0.1 * scale).project(point)
    np.testing.assert_allclose(relative, np.array([0.06, 0.08]) * scale, rtol=1e-6)
    np.testing.assert_allclose(ux.L2Ball(1.0).minimize_linear(point), [-0.6, -0.8], rtol=1e-6)


@pytest.mark.parametrize("radius", [1e-30, 1e-10, 1.0, 1e10, 1e30])
@pytest.mark.parametrize("excess", [0.5, 2.0, 1e6])
def test_l2_ball_steps_are_right_relative_to_the_radius(radius: float, excess: float) -> None:
    gradient = jnp.array([0.6, -0.8], jnp.float32) * np.float32(radius)
    reached = ux.L2Ball(radius).step(jnp.zeros(2, jnp.float32), gradient, excess)
    expected = -np.array([0.6, -0.8]) * radius * min(excess, 1.0)
    np.testing.assert_allclose(reached, expected, rtol=1e-6)


def test_l2_ball_does_not_overflow_in_float16() -> None:
    projected = ux.L2Ball(1.0).project(jnp.array([300.0, 400.0], jnp.float16))
    assert projected.dtype == jnp.float16
    np.testing.assert_allclose(projected, [0.6, 0.8], rtol=1e-3)


@pytest.mark.parametrize("geometry", SIMPLICES, ids=name)
@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_simplices_keep_half_precision_and_its_sum(geometry: ux.Geometry, half: type) -> None:
    point = jax.random.normal(jax.random.key(0), (1000,)).astype(half)
    projected = geometry.project(point / 100 if isinstance(geometry, ux.Simplex) else point)
    assert projected.dtype == half
    assert abs(np.asarray(projected, np.float64).sum() - 1) <= float(jnp.finfo(half).eps)


def test_l1_ball_keeps_bfloat16_and_its_norm() -> None:
    point = jax.random.normal(jax.random.key(0), (1000,)).astype(jnp.bfloat16)
    projected = ux.L1Ball().project(point)
    assert projected.dtype == jnp.bfloat16
    assert abs(np.abs(np.asarray(projected, np.float64)).sum() - 1) <= 2**-7


@pytest.mark.parametrize("geometry", ALL, ids=name)
def test_single_entries_and_empty_leaves(geometry: ux.Geometry) -> None:
    one = geometry.project(jnp.array([7.0]))
    np.testing.assert_array_equal(one, [1.0])
    tree = {"empty": jnp.zeros((0, 3)), "one": jnp.array(7.0), "none": None}
    projected = geometry.project(tree)
    assert projected["empty"].shape == (0, 3)
    assert projected["none"] is None
    np.testing.assert_array_equal(projected["one"], 1.0)
    mirror = geometry.to_mirror(projected)
    np.testing.assert_array_equal(
        geometry.to_point(geometry.step(mirror, jax.tree.map(jnp.ones_like, tree), 0.0))["one"], 1.0
    )


@pytest.mark.parametrize("geometry", ALL, ids=name)
@pytest.mark.parametrize("tree", [{}, None, {"a": None}, [jnp.zeros(0)]])
def test_trees_without_entries(geometry: ux.Geometry, tree: object) -> None:
    projected = geometry.project(tree)
    assert jax.tree.structure(projected) == jax.tree.structure(tree)
    assert float(geometry.violation(tree)) == 0
    assert float(geometry.squared_dual_norm(tree)) == 0
    assert np.isfinite(geometry.diameter(tree))
    geometry.step(geometry.to_mirror(projected), tree, 1.0)
    geometry.minimize_linear(tree)


def test_ties_share_equally() -> None:
    tied = jnp.array([2.0, 2.0, 2.0, -5.0])
    np.testing.assert_allclose(ux.Simplex().project(tied), [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)
    np.testing.assert_allclose(ux.Simplex().minimize_linear(-tied), [1 / 3, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(ux.L1Ball().minimize_linear(tied), [0, 0, 0, 1])


@pytest.mark.parametrize("geometry", ALL, ids=name)
def test_nan_stays_visible(geometry: ux.Geometry) -> None:
    for index in range(3):
        point = jnp.array([0.2, 0.3, 0.1]).at[index].set(jnp.nan)
        assert jnp.isnan(geometry.project(point)).any()
        assert jnp.isnan(geometry.violation(point))
        assert jnp.isnan(geometry.squared_dual_norm(point))
        assert jnp.isnan(geometry.minimize_linear(point)).any()
        center = geometry.interior_point(point)
        assert jnp.isnan(geometry.step(geometry.to_mirror(center), point, 1.0)).any()


def test_infinite_entries_have_their_limits() -> None:
    point = jnp.array([0.2, jnp.inf, -jnp.inf, 0.1])
    np.testing.assert_allclose(ux.Box(-1.0, 1.0).project(point), [0.2, 1, -1, 0.1], rtol=1e-6)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(ux.L2Ball().project(point), [0, half, -half, 0], rtol=1e-6)
    np.testing.assert_array_equal(ux.L1Ball().project(point), [0, 0.5, -0.5, 0])
    np.testing.assert_array_equal(ux.Simplex().project(point), [0, 1, 0, 0])
    np.testing.assert_allclose(ux.EntropicSimplex().project(point), [0, 1, 0, 0], atol=1e-6)
    some_off = jnp.array([0.2, -jnp.inf, 0.9])
    np.testing.assert_allclose(ux.Simplex().project(some_off), [0.15, 0, 0.85], rtol=1e-6)


@pytest.mark.parametrize("geometry", [ux.L2Ball(0.0), ux.L1Ball(0.0), ux.Box(0.0, 0.0)], ids=name)
def test_sets_of_one_point(geometry: ux.Geometry) -> None:
    point = jnp.array([3.0, -1.0, 0.0])
    np.testing.assert_array_equal(geometry.project(point), np.zeros(3))
    np.testing.assert_array_equal(geometry.minimize_linear(point), np.zeros(3))
    np.testing.assert_array_equal(geometry.step(jnp.zeros(3), point, 1.0), np.zeros(3))
    assert float(geometry.diameter(point)) == 0
    assert jnp.all(jnp.isfinite(jax.jacrev(geometry.project)(point)))
    run = ux.solve(lambda x: jnp.vdot(x, point), geometry, jnp.ones(3), 5, offset=None)
    np.testing.assert_array_equal(run.params, np.zeros(3))


@pytest.mark.parametrize("geometry", ALL, ids=name)
def test_integers_become_floats(geometry: ux.Geometry) -> None:
    projected = geometry.project(jnp.array([3, -1, 2]))
    assert projected.dtype == jnp.result_type(float)
    np.testing.assert_allclose(projected, geometry.project(jnp.array([3.0, -1.0, 2.0])))


def test_complex_params_are_refused() -> None:
    with pytest.raises(TypeError, match=r"real numbers.*complex"):
        ux.L2Ball().project(jnp.array([1j]))


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("seed", range(3))
def test_a_million_entries_sum_to_one(seed: int, spread: float) -> None:
    values = spread * np.random.default_rng(seed).normal(size=1_000_000)
    point = jnp.asarray(values, jnp.float32)
    rounded = np.asarray(point, np.float64)
    eps = np.finfo(np.float32).eps
    simplex = np.asarray(ux.Simplex().project(point), np.float64)
    assert abs(simplex.sum() - 1) <= 8 * eps
    np.testing.assert_allclose(simplex, oracle.project_simplex(rounded), atol=8 * eps)
    l1 = np.asarray(ux.L1Ball().project(point), np.float64)
    assert np.abs(l1).sum() <= 1 + 8 * eps
    np.testing.assert_allclose(l1, oracle.project_l1_ball(rounded), atol=8 * eps)


@pytest.mark.parametrize("size", [1, 2, 7, 100, 3000])
@pytest.mark.parametrize("total", [1e-6, 1.0, 1e5])
def test_threshold_projections_equal_sorting(size: int, total: float, dtype: np.dtype) -> None:
    rng = np.random.default_rng(size)
    for spread in [1e-4, 1.0, 1e4]:
        heavy = total * spread * rng.standard_cauchy(size)
        point = jnp.asarray(heavy, dtype)
        rounded = np.asarray(point, np.float64)
        allowed = 8 * np.finfo(dtype).eps * total
        np.testing.assert_allclose(
            ux.Simplex(total).project(point), oracle.project_simplex(rounded, total), atol=allowed
        )
        np.testing.assert_allclose(
            ux.L1Ball(total).project(point), oracle.project_l1_ball(rounded, total), atol=allowed
        )


def test_bounds_may_be_trees_arrays_or_prefixes() -> None:
    params = {"w": jnp.array([[-3.0, 0.5], [2.0, 9.0]]), "b": jnp.array([-1.0, 4.0])}
    box = ux.Box(lower={"w": jnp.zeros(2), "b": -0.5}, upper=1.0)
    projected = box.project(params)
    np.testing.assert_array_equal(projected["w"], [[0, 0.5], [1, 1]])
    np.testing.assert_array_equal(projected["b"], [-0.5, 1])
    np.testing.assert_allclose(box.diameter(params) ** 2, (4 * 1 + 2 * 1.5**2) / 2, rtol=1e-6)
    ball = ux.L2Ball(1.0, center={"w": jnp.ones((2, 2)), "b": 0.0})
    inside = ball.project(params)
    assert float(ball.violation(inside)) <= 1e-6
    np.testing.assert_array_equal(ball.interior_point()["w"], np.ones((2, 2)))
    np.testing.assert_array_equal(
        ux.Box(np.zeros(3), np.array([1.0, 2.0, np.inf])).interior_point(), [0.5, 1.0, 0.0]
    )


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
        (lambda: ux.Simplex().interior_point(), "does not know the shape"),
        (lambda: ux.Box().interior_point(), "does not know the shape"),
    ],
)
def test_bad_sets_are_refused(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


def test_text_is_not_a_radius() -> None:
    with pytest.raises(TypeError, match="radius must be a real number"):
        ux.L2Ball("1")  # type: ignore[arg-type]


def test_axis_specifications_can_be_geometries() -> None:
    """`in_axes` for vmap is a geometry of axis numbers and None."""
    boxes = ux.Box(0.0, jnp.array([1.0, 2.0]))
    axes = ux.Box(lower=None, upper=0)
    projected = jax.vmap(lambda box: box.project(jnp.array(5.0)), in_axes=(axes,))(boxes)
    np.testing.assert_array_equal(projected, [1.0, 2.0])
