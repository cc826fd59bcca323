"""Inputs that break other libraries' projections, each with its right answer."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import oracle
from tests.sampling import by_default
from unixgrad_jax.geometries._balls import LARGE

SIMPLICES = [
    ux.Simplex(),
    ux.EntropicSimplex(),
    ux.ShiftedEntropySimplex(),
    ux.CappedSimplex(total=1.0, cap=0.9),
]
BALLS = [
    ux.L2Ball(),
    ux.L1Ball(),
    ux.GroupBall(axis=None),
    ux.PNormBall(),
    ux.EntropicL1Ball(),
]
BOXES = [ux.Box(-1.0, 1.0), ux.EntropicBox(-1.0, 1.0), ux.MonotoneBox(-1.0, 1.0)]
BOUNDED = [*BALLS, *BOXES, *SIMPLICES[:3], ux.CappedSimplex()]
ORTHANT = ux.FromProjection(optax.projections.projection_non_negative, 1.0)
PENALIZED = [
    ux.Penalized(ux.Box(-1.0, 1.0), ux.ElasticNet()),
    ux.Penalized(ux.L2Ball(), ux.L1Norm()),
    ux.Penalized(ux.Simplex(), ux.SquaredL2Norm()),
    ux.Penalized(ux.L2Ball(), ux.GroupNorm(axis=None)),
]
ALL = [*BOUNDED, *PENALIZED, ux.Unconstrained(1.0), ORTHANT]
MATRICES = [
    ux.NuclearBall(),
    ux.SpectralBall(),
    ux.Spectrahedron(),
    ux.EntropicSpectrahedron(),
    ux.Penalized(ux.L2Ball(), ux.NuclearNorm()),
]


def name(geometry: object) -> str | None:
    """Return the geometry as text without addresses, for the names of tests."""
    return repr(geometry).partition(" at 0x")[0] if isinstance(geometry, ux.Geometry) else None


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


@pytest.mark.parametrize("geometry", BALLS, ids=name)
def test_balls_share_equally_between_four_entries_of_1e38(geometry: ux.Geometry) -> None:
    signs = jnp.array([1.0, -1.0, 1.0, -1.0], jnp.float32)
    shares = geometry.project(1e38 * signs)
    np.testing.assert_allclose(shares, geometry.project(100 * signs), rtol=1e-6)
    assert float(geometry.violation(shares)) <= 1e-6


@pytest.mark.parametrize(
    "geometry", [ux.L2Ball(), ux.PNormBall(), ux.GroupBall(axis=None), ux.GroupBall()], ids=name
)
def test_linear_oracles_and_projections_see_the_direction_of_entries_of_1e38(
    geometry: ux.Geometry,
) -> None:
    """The reciprocal of more than 8e37 is a subnormal number, which XLA counts as 0."""
    direction = jnp.array([[1.0, 2.0], [-2.5, 0.0]], jnp.float32)
    for function in (geometry.minimize_linear, geometry.project):
        np.testing.assert_allclose(function(1e38 * direction), function(8 * direction), rtol=1e-5)


@pytest.mark.parametrize("geometry", [ux.EntropicSimplex(), ux.Birkhoff()], ids=name)
def test_entropies_keep_the_shares_of_entries_of_1e38(geometry: ux.Geometry) -> None:
    shares = jnp.array([[1.0, 2.0], [3.0, 0.5]], jnp.float32)
    np.testing.assert_allclose(
        geometry.project(1e38 * shares), geometry.project(8 * shares), rtol=1e-5
    )


@pytest.mark.parametrize(
    "geometry", [ux.L2Ball(np.inf), ux.PNormBall(np.inf), ux.L1Ball(np.inf)], ids=name
)
def test_linear_oracles_of_infinite_balls_point_to_infinity(geometry: ux.Geometry) -> None:
    vertex = geometry.minimize_linear(jnp.array([0.0, 3.0, 0.0]))
    np.testing.assert_array_equal(vertex, [0.0, -np.inf, 0.0])


@pytest.mark.parametrize("geometry", [ux.GroupBall(), ux.CappedSimplex(2.0, 0.75)], ids=name)
def test_steps_that_would_overflow_end_at_a_vertex(geometry: ux.Geometry) -> None:
    gradient = jnp.array([[1.0, 2.0], [-2.5, 0.0]], jnp.float32)
    start = geometry.interior_point(gradient)
    stepped = geometry.step(start, 1e20 * gradient, 1e30)
    np.testing.assert_allclose(stepped, geometry.minimize_linear(gradient), atol=1e-6)


def test_group_ball_shares_equally_between_two_groups_of_1e38() -> None:
    point = jnp.array([[6e37, 8e37], [-1e38, 0.0], [1e37, 1e37]], jnp.float32)
    np.testing.assert_allclose(
        ux.GroupBall().project(point), [[0.3, 0.4], [-0.5, 0], [0, 0]], rtol=1e-6
    )


def test_spectral_sets_share_equally_between_entries_of_1e30() -> None:
    point = 1e30 * jnp.eye(4, dtype=jnp.float32)
    for geometry, share in [
        (ux.NuclearBall(), 0.25),
        (ux.Spectrahedron(), 0.25),
        (ux.SpectralBall(), 1),
    ]:
        np.testing.assert_allclose(geometry.project(point), share * np.eye(4), rtol=1e-5)


@pytest.mark.parametrize("matrix", [np.eye(3), np.diag([1.0, 1.0, -1.0])[[2, 0, 1]]])
@pytest.mark.usefixtures("x64")
def test_nuclear_ball_has_its_derivative_at_repeated_singular_values(matrix: np.ndarray) -> None:
    """Where all σ are 1, the derivative takes ⅓ of the trace away and halves what is not even."""
    jacobian = jax.jit(jax.jacrev(ux.NuclearBall().project))(matrix)
    change = np.random.default_rng(0).normal(size=(3, 3))
    inner = matrix.T @ change
    expected = matrix @ (
        (inner + inner.T) / 2 - np.trace(inner) / 3 * np.eye(3) + (inner - inner.T) / 2 / 3
    )
    np.testing.assert_allclose(np.einsum("ijkl,kl->ij", jacobian, change), expected, atol=1e-12)
    assert np.isfinite(jacobian).all()


def test_nuclear_ball_at_the_identity_in_float32() -> None:
    jacobian = jax.jit(jax.jacfwd(ux.NuclearBall().project))(jnp.eye(3, dtype=jnp.float32))
    np.testing.assert_allclose(jacobian[0, 0, 0, 0], 2 / 3, rtol=1e-5)
    np.testing.assert_allclose(jacobian[0, 0, 1, 1], -1 / 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("geometry", "start", "other"),
    [
        (ux.EntropicSimplex(2.0), [2.0, 0, 0], [0, 2.0, 0]),
        (ux.EntropicSpectrahedron(2.0), np.diag([2.0, 0, 0]), np.diag([0, 2.0, 0])),
        (ux.Birkhoff(), np.eye(3), np.eye(3)[::-1]),
        (
            ux.TransportPolytope(np.full(2, 1.5), np.ones(3)),
            [[1, 0.5, 0], [0, 0.5, 1]],
            [[0, 0.5, 1], [1, 0.5, 0]],
        ),
    ],
    ids=["simplex", "spectrahedron", "birkhoff", "transport"],
)
def test_weights_of_zero_come_back_and_have_derivatives(
    geometry: ux.Geometry, start: np.ndarray, other: np.ndarray, dtype: np.dtype
) -> None:
    vertex = jnp.asarray(start, dtype)
    mirror = geometry.to_mirror(vertex)
    assert np.isfinite(mirror).all()
    assert np.isfinite(jax.jacfwd(geometry.to_mirror)(vertex)).all()
    np.testing.assert_allclose(geometry.to_point(mirror), start, atol=8 * jnp.finfo(dtype).eps)
    slope = vertex - jnp.asarray(other, dtype)
    back = geometry.to_point(geometry.step(mirror, slope, 3000.0))
    np.testing.assert_allclose(back, other, atol=1e-4)


def test_negative_weights_are_no_start() -> None:
    assert np.isnan(ux.EntropicSimplex().to_mirror(jnp.array([1.5, -0.5]))[1])


@pytest.mark.parametrize("geometry", MATRICES, ids=name)
def test_matrix_sets_have_finite_derivatives_at_repeated_values(
    geometry: ux.Geometry, dtype: np.dtype
) -> None:
    mirror = geometry.to_mirror(geometry.interior_point(jnp.zeros((3, 3), dtype)))

    @jax.jit
    def jacobian(matrix: jax.Array) -> tuple[jax.Array, ...]:
        return jax.jacrev(
            lambda x: (
                geometry.project(x),
                geometry.minimize_linear(x),
                geometry.to_point(geometry.step(mirror, x, 1.0)),
                geometry.violation(x),
                geometry.squared_dual_norm(x),
                geometry.penalty(x),
            )
        )(matrix)

    for point in [np.zeros((3, 3)), np.eye(3), np.ones((3, 3)), -np.eye(3)]:
        for part in jacobian(jnp.asarray(point, dtype)):
            assert np.isfinite(part).all()


def test_monotone_box_survives_an_outlier_at_the_end() -> None:
    """The case that makes pool-adjacent-violators merge backwards one block at a time."""
    point = jnp.append(jnp.arange(1000.0), -499_500.0)
    projected = ux.MonotoneBox(-10.0, 10.0).project(point)
    np.testing.assert_allclose(projected, np.zeros(1001), atol=1e-2)


def test_capped_simplex_keeps_the_digits_of_the_anchor_under_a_huge_common_gradient() -> None:
    anchor = jnp.array([0.2, 0.3, 0.5, 0.0, 0.6], jnp.float32)
    gradient = jnp.array([3.0, 3.0, 3.0, 4.0, -4.0], jnp.float32)
    stepped = ux.CappedSimplex(1.6, 0.6).step(anchor, gradient, 1e7)
    np.testing.assert_allclose(stepped, anchor, rtol=1e-6)


def test_group_ball_keeps_the_digits_of_the_anchor_under_a_huge_common_gradient() -> None:
    anchor = jnp.array([[0.25, 0.0], [0.0, -0.25], [0.3, 0.4]], jnp.float32)
    norms = jnp.linalg.norm(anchor, axis=1, keepdims=True)
    stepped = ux.GroupBall().step(anchor, -4.0 * anchor / norms, 1e6)
    np.testing.assert_allclose(stepped, anchor, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("geometry", [ux.Spectrahedron(), ux.EntropicSpectrahedron()], ids=name)
def test_spectrahedra_keep_the_digits_of_a_gradient_beside_a_huge_common_part(
    geometry: ux.Geometry,
) -> None:
    small = jnp.array([[0.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 0.5]], jnp.float32)
    mirror = geometry.to_mirror(geometry.interior_point(small))
    huge = 4e6 * jnp.eye(3) + small
    expected, stepped = (geometry.to_point(geometry.step(mirror, g, 1.0)) for g in (small, huge))
    np.testing.assert_allclose(stepped, expected, atol=1e-6)


def test_entropic_spectrahedron_keeps_its_digits_under_a_huge_gradient() -> None:
    """Two eigenvalues that share, and one that a gradient of 1e6 has sent away."""
    geometry = ux.EntropicSpectrahedron()
    mirror = geometry.to_mirror(jnp.diag(jnp.array([0.6, 0.3, 0.1], jnp.float32)))
    mirror = geometry.step(mirror, jnp.diag(jnp.array([0.0, 0.0, 1e6], jnp.float32)), 1.0)
    mirror = geometry.step(mirror, jnp.zeros((3, 3), jnp.float32), 1.0)
    expected = np.diag([2 / 3, 1 / 3, 0])
    np.testing.assert_allclose(geometry.to_point(mirror), expected, atol=1e-5)


def test_entropic_l1_ball_keeps_its_digits_under_long_runs() -> None:
    """Weights that share the largest gradient keep their ratio however far they have gone."""
    geometry = ux.EntropicL1Ball()
    mirror = geometry.to_mirror(jnp.array([0.5, -0.25, 0.0], jnp.float32))
    for _ in range(50):
        mirror = geometry.step(mirror, jnp.array([-2.0, 2.0, 1.0], jnp.float32), 1e5)
    x = np.asarray(geometry.to_point(mirror))
    first = np.asarray(geometry.to_mirror(jnp.array([0.5, -0.25, 0.0], jnp.float32))[0])
    last = np.asarray(geometry.to_mirror(jnp.array([-0.5, 0.25, 0.0], jnp.float32))[0])
    ratio = np.exp(first[0] - last[1])
    np.testing.assert_allclose(x, [ratio / (1 + ratio), -1 / (1 + ratio), 0], rtol=1e-5)


@pytest.mark.parametrize("size", [2, 100, 5000])
@pytest.mark.parametrize("scale", [1e-36, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e38])
def test_l2_ball_handles_every_scale_of_float32(scale: float, size: int) -> None:
    """Pairs, and the sizes whose sums go by strips and by a branch."""
    scale = max(scale, 1e-34) if size > 2 else scale
    share = (2 / size) ** 0.5
    direction = np.tile([0.6, 0.8], size // 2) * share
    point = jnp.asarray(0.5 * scale * direction, jnp.float32)
    expected = direction * (1 if scale > 2 else 0.5 * scale)
    np.testing.assert_allclose(ux.L2Ball(1.0).project(point), expected, rtol=1e-6)
    relative = ux.L2Ball(0.1 * scale).project(point)
    np.testing.assert_allclose(relative, 0.1 * scale * direction, rtol=1e-6)
    np.testing.assert_allclose(ux.L2Ball(1.0).minimize_linear(point), -direction, rtol=1e-6)


@pytest.mark.parametrize("size", [4, 100, 5000])
def test_l2_ball_keeps_nans_and_takes_infinities_to_their_limit(size: int) -> None:
    point = jnp.ones(size, jnp.float32)
    infinite = ux.L2Ball(1.0).project(point.at[1].set(jnp.inf).at[2].set(-jnp.inf))
    expected = np.zeros(size)
    expected[[1, 2]] = [0.5**0.5, -(0.5**0.5)]
    np.testing.assert_allclose(infinite, expected, atol=1e-6)
    with_nan = ux.L2Ball(1.0).project(point.at[1].set(jnp.inf).at[2].set(jnp.nan))
    np.testing.assert_array_equal(jnp.isnan(with_nan), np.arange(size) == 2)


@pytest.mark.parametrize("radius", [1e-36, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e32])
@pytest.mark.parametrize("excess", [0.5, 2.0, 1e6])
def test_l2_ball_steps_are_right_relative_to_the_radius(radius: float, excess: float) -> None:
    gradient = jnp.array([0.6, -0.8], jnp.float32) * np.float32(radius)
    reached = ux.L2Ball(radius).step(jnp.zeros(2, jnp.float32), gradient, excess)
    expected = -np.array([0.6, -0.8]) * radius * min(excess, 1.0)
    np.testing.assert_allclose(reached, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("radius", "scale"),
    [(1, 1), (1, 1e-28), (1, 1e-15), (1, 1e15), (1, 1e25), (1e-30, 1), (1e25, 1), (1e25, 1e25)],
)
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("size", [100, LARGE])
def test_l2_ball_steps_are_right_at_every_scale(
    radius: float, scale: float, centered: bool, size: int
) -> None:
    directions = np.random.default_rng(0).normal(size=(2, size))
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    center = 0.0 if centered else 0.25 * radius / size**0.5
    anchor = (0.7 * radius * unit[0] + center).astype(np.float32)
    gradient = (unit[1] * scale).astype(np.float32)
    ball = ux.L2Ball(radius, None if centered else center)
    for excess in [0.0, 1e-3, 0.9, 2.0, 1e6]:
        step_size = np.float32(excess * radius / scale)
        moved = anchor.astype(float) - float(step_size) * gradient.astype(float) - center
        expected = moved * min(1, radius / np.linalg.norm(moved)) + center
        reached = ball.step(jnp.asarray(anchor), jnp.asarray(gradient), step_size)
        error = np.linalg.norm(np.asarray(reached, float) - expected)
        assert error <= 2e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("size", [100, LARGE])
def test_l2_ball_steps_keep_nans_and_have_derivatives(size: int) -> None:
    key, other = jax.random.split(jax.random.key(0))
    anchor = jax.random.normal(key, (size,)) / size**0.5 / 2
    gradient = jax.random.normal(other, (size,)) / size**0.5
    ball = ux.L2Ball()
    with_nan = ball.step(anchor, gradient.at[3].set(jnp.nan), 2.0)
    assert jnp.isnan(with_nan[3])
    assert jnp.sum(jnp.isnan(with_nan)) == 1

    def along(length: jax.Array) -> jax.Array:
        return jnp.vdot(gradient, ball.step(anchor, gradient, length))

    pairs = [(anchor, anchor), (anchor, gradient), (gradient, gradient)]
    a, b, c = (float(jnp.vdot(x, y)) for x, y in pairs)
    for length in (0.1, 2.0):
        squared = a - 2 * length * b + length**2 * c
        inside = -c
        outside = (-c * squared - (b - length * c) * (length * c - b)) / squared**1.5
        for mode in (jax.grad, jax.jacfwd):
            slope = float(mode(along)(length))
            np.testing.assert_allclose(slope, inside if squared < 1 else outside, rtol=1e-5)


@pytest.mark.parametrize(
    "geometry",
    [ux.NuclearBall, ux.SpectralBall, ux.GroupBall, ux.Spectrahedron, ux.EntropicSpectrahedron],
)
def test_sizes_have_derivatives_at_zero_in_both_modes(
    geometry: Callable[[jax.Array], ux.Geometry],
) -> None:
    def projected(size: jax.Array) -> jax.Array:
        return geometry(size).project(jnp.zeros((2, 2)))

    # The spectrahedra share their trace equally, zero is a point of the others.
    expected = np.eye(2) / 2 if "hedron" in geometry.__name__ else np.zeros((2, 2))
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(mode(projected)(2.0), expected, atol=1e-6)


def test_the_step_of_a_ball_that_is_a_point_has_a_derivative_in_the_radius() -> None:
    for jacobian in (jax.jacfwd, jax.jacrev):
        slope = jacobian(lambda r: ux.L2Ball(r).step(jnp.zeros(2), jnp.array([3.0, -4.0]), 1.0))
        np.testing.assert_allclose(slope(0.0), [-0.6, 0.8], rtol=1e-6)


def test_a_ball_of_infinite_radius_has_derivatives() -> None:
    ball, point = ux.L2Ball(np.inf), jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(jax.jacrev(ball.project)(point), np.eye(2))
    np.testing.assert_array_equal(jax.jacrev(lambda g: ball.step(point, g, 1.0))(point), -np.eye(2))


def test_entropic_box_steps_do_not_overflow_in_float16() -> None:
    gradient = jnp.array([20000.0, -100.0], jnp.float16)
    reached = ux.EntropicBox(0.0, 1.0).step(jnp.zeros(2, jnp.float16), gradient, 1e-5)
    np.testing.assert_allclose(reached, [-0.8, 0.004], rtol=1e-3)


def test_l2_ball_does_not_overflow_in_float16() -> None:
    projected = ux.L2Ball(1.0).project(jnp.array([300.0, 400.0], jnp.float16))
    assert projected.dtype == jnp.float16
    np.testing.assert_allclose(projected, [0.6, 0.8], rtol=1e-3)


@pytest.mark.parametrize("geometry", SIMPLICES, ids=name)
@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_simplices_keep_half_precision_and_its_sum(geometry: ux.Geometry, half: type) -> None:
    point = jax.random.normal(jax.random.key(0), (1000,)).astype(half)
    projected = geometry.project(point if isinstance(geometry, ux.EntropicSimplex) else point / 100)
    assert projected.dtype == half
    assert abs(np.asarray(projected, np.float64).sum() - 1) <= float(jnp.finfo(half).eps)


def test_l1_ball_keeps_bfloat16_and_its_norm() -> None:
    point = jax.random.normal(jax.random.key(0), (1000,)).astype(jnp.bfloat16)
    projected = ux.L1Ball().project(point)
    assert projected.dtype == jnp.bfloat16
    assert abs(np.abs(np.asarray(projected, np.float64)).sum() - 1) <= 2**-7


@pytest.mark.parametrize("geometry", BOUNDED, ids=name)
def test_single_entries_and_empty_leaves(geometry: ux.Geometry) -> None:
    one = geometry.project(jnp.array([7.0]))
    np.testing.assert_allclose(one, [1.0], rtol=1e-6)
    tree = {"empty": jnp.zeros((0, 3)), "one": jnp.array(7.0), "none": None}
    projected = geometry.project(tree)
    assert projected["empty"].shape == (0, 3)
    assert projected["none"] is None
    np.testing.assert_allclose(projected["one"], 1.0, rtol=1e-6)
    mirror = geometry.to_mirror(projected)
    stepped = geometry.to_point(geometry.step(mirror, jax.tree.map(jnp.ones_like, tree), 0.0))
    np.testing.assert_allclose(stepped["one"], 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "geometry",
    [*ALL, *MATRICES, ux.Batched(ux.Simplex()), ux.Product({"a": ux.Simplex()})],
    ids=name,
)
@pytest.mark.parametrize(
    "tree", by_default([None, "one empty leaf"], [{}, None, {"a": None}, "one empty leaf"])
)
def test_trees_without_entries(geometry: ux.Geometry, tree: object) -> None:
    if tree == "one empty leaf":
        tree = {"a": jnp.zeros((0, 0) if geometry in MATRICES else 0)}
        if isinstance(geometry, ux.Batched):  # of no rows
            return
    projected = geometry.project(tree)
    assert jax.tree.structure(projected) == jax.tree.structure(tree)
    assert float(geometry.violation(tree)) == 0
    assert float(geometry.squared_dual_norm(tree)) == 0
    assert float(geometry.penalty(tree)) == 0
    assert np.isfinite(geometry.diameter(tree))
    geometry.step(geometry.to_mirror(projected), tree, 1.0)
    if not isinstance(geometry, ux.Unconstrained | ux.FromProjection):
        geometry.minimize_linear(tree)


def test_ties_share_equally() -> None:
    tied = jnp.array([2.0, 2.0, 2.0, -5.0])
    np.testing.assert_allclose(ux.Simplex().project(tied), [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)
    np.testing.assert_allclose(ux.Simplex().minimize_linear(-tied), [1 / 3, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(ux.L1Ball().minimize_linear(tied), [0, 0, 0, 1])
    groups = jnp.array([[3.0, 4.0], [0.0, 5.0], [1.0, 1.0]])
    np.testing.assert_allclose(
        ux.GroupBall().minimize_linear(groups), [[-0.3, -0.4], [0, -0.5], [0, 0]], rtol=1e-6
    )
    capped = ux.CappedSimplex(1.0, 0.5)
    np.testing.assert_allclose(capped.minimize_linear(tied), [1 / 6, 1 / 6, 1 / 6, 0.5], rtol=1e-6)
    np.testing.assert_allclose(capped.project(tied), [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)


@pytest.mark.parametrize("geometry", ALL, ids=name)
def test_nan_stays_visible(geometry: ux.Geometry) -> None:
    for index in range(3):
        point = jnp.array([0.2, 0.3, 0.1]).at[index].set(jnp.nan)
        assert jnp.isnan(geometry.project(point)).any()
        assert jnp.isnan(geometry.violation(point))
        assert jnp.isnan(geometry.squared_dual_norm(point))
        if not isinstance(geometry, ux.Unconstrained | ux.FromProjection):
            assert jnp.isnan(geometry.minimize_linear(point)).any()
        center = geometry.interior_point(point)
        stepped = geometry.step(geometry.to_mirror(center), point, 1.0)
        assert jnp.isnan(geometry.to_point(stepped)).any()


@pytest.mark.parametrize("geometry", ALL, ids=name)
def test_nan_stays_visible_beside_an_infinity(geometry: ux.Geometry) -> None:
    assert jnp.isnan(geometry.project(jnp.array([0.1, jnp.inf, jnp.nan, 0.2]))).any()


@pytest.mark.parametrize(
    "geometry",
    by_default([k for k in ALL if not isinstance(k, ux.MonotoneBox)], ALL),
    ids=name,
)
def test_one_nan_among_many_entries_or_rows_stays_visible(geometry: ux.Geometry) -> None:
    """XLA's maximum on CPU loses NaNs in some thousand entries and more, also in batches."""
    large = jnp.full(20_000, 1e-5).at[77].set(jnp.nan)
    rows = jnp.full((5_000, 3), 0.3).at[77, 1].set(jnp.nan)
    for function in (geometry.violation, geometry.squared_dual_norm):
        assert jnp.isnan(function(large))
        assert jnp.isnan(jax.vmap(function)(rows)[77])
    assert jnp.isnan(geometry.project(large)).any()
    assert jnp.isnan(ux.Batched(geometry).violation(rows))


@pytest.mark.parametrize("geometry", MATRICES, ids=name)
def test_nan_stays_visible_in_matrices(geometry: ux.Geometry) -> None:
    point = jnp.eye(3).at[0, 1].set(jnp.nan)
    assert jnp.isnan(geometry.project(point)).any()
    assert jnp.isnan(geometry.violation(point))
    assert jnp.isnan(geometry.squared_dual_norm(point))
    assert jnp.isnan(geometry.minimize_linear(point)).any()
    mirror = geometry.to_mirror(geometry.interior_point(point))
    assert jnp.isnan(geometry.to_point(geometry.step(mirror, point, 1.0))).any()


INFINITE = [
    (ux.Simplex(), [0, 1, 0]),
    (ux.EntropicSimplex(), [0, 1, 0]),
    (ux.ShiftedEntropySimplex(), [0, 1, 0]),
    (ux.CappedSimplex(1.0, 0.75), [0, 0.75, 0.25]),
    (ux.Box(-1.0, 1.0), [-1, 1, -1]),
    (ux.EntropicBox(-1.0, 1.0), [-1, 1, -1]),
    (ux.L1Ball(), [-0.5, 0.5, 0]),
    (ux.EntropicL1Ball(), [-0.5, 0.5, 0]),
    (ux.L2Ball(), [-(0.5**0.5), 0.5**0.5, 0]),
    (ux.GroupBall(axis=None), [-(0.5**0.5), 0.5**0.5, 0]),
    (ux.PNormBall(1.0, 1.5), [-(0.5 ** (2 / 3)), 0.5 ** (2 / 3), 0]),
]


@pytest.mark.parametrize(("geometry", "vertex"), INFINITE, ids=lambda value: str(value)[:24])
def test_infinite_gradients_have_a_vertex_and_no_step_out_of_the_set(
    geometry: ux.Geometry, vertex: list[float]
) -> None:
    """A step to nowhere is NaN, if it has no limit: never a number outside."""
    gradient = jnp.array([jnp.inf, -jnp.inf, 1.0])
    np.testing.assert_allclose(geometry.minimize_linear(gradient), vertex, rtol=1e-6)
    start = geometry.to_mirror(geometry.interior_point(gradient))
    stepped = geometry.to_point(geometry.step(start, gradient, 1.0))
    assert jnp.isnan(stepped).any() or float(geometry.violation(stepped)) <= 1e-6


def test_infinite_entries_have_their_limits() -> None:
    point = jnp.array([0.2, jnp.inf, -jnp.inf, 0.1])
    np.testing.assert_allclose(ux.Box(-1.0, 1.0).project(point), [0.2, 1, -1, 0.1], rtol=1e-6)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(ux.L2Ball().project(point), [0, half, -half, 0], rtol=1e-6)
    np.testing.assert_array_equal(ux.L1Ball().project(point), [0, 0.5, -0.5, 0])
    np.testing.assert_array_equal(ux.Simplex().project(point), [0, 1, 0, 0])
    np.testing.assert_allclose(ux.EntropicSimplex().project(point), [0, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(ux.ShiftedEntropySimplex().project(point), [0, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(
        ux.PNormBall().project(point), [0, 2 ** (-2 / 3), -(2 ** (-2 / 3)), 0]
    )
    np.testing.assert_array_equal(ux.EntropicL1Ball().project(point), [0, 0.5, -0.5, 0])
    np.testing.assert_allclose(ux.EntropicBox(-1.0, 1.0).project(point), [0.2, 1, -1, 0.1])
    np.testing.assert_allclose(
        ux.GroupBall().project(point.reshape(2, 2)), [[0, 0.5], [-0.5, 0]], rtol=1e-6
    )
    rising = jnp.array([-jnp.inf, 0.3, 0.1, jnp.inf])
    np.testing.assert_allclose(
        ux.MonotoneBox(-1.0, 1.0).project(rising), [-1, 0.2, 0.2, 1], rtol=1e-6
    )
    capped = ux.CappedSimplex(1.0, 0.6).project(jnp.array([0.2, jnp.inf, -jnp.inf, 0.1]))
    np.testing.assert_allclose(capped, [0.25, 0.6, 0, 0.15], rtol=1e-6)
    crowded = ux.CappedSimplex(1.0, 0.6).project(jnp.array([0.2, jnp.inf, jnp.inf, -jnp.inf]))
    np.testing.assert_allclose(crowded, [0, 0.5, 0.5, 0])
    short = ux.CappedSimplex(1.0, 0.6).project(jnp.array([0.2, -jnp.inf, -jnp.inf]))
    np.testing.assert_allclose(short, [0.6, 0.2, 0.2], rtol=1e-6)
    one = jnp.zeros((3, 3)).at[0, 1].set(jnp.inf)
    np.testing.assert_allclose(ux.NuclearBall().project(one), one > 0, atol=1e-6)
    half_half = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0]])
    np.testing.assert_allclose(ux.Spectrahedron().project(one), half_half, atol=1e-6)
    assert jnp.isnan(ux.SpectralBall().project(one)).all()
    some_off = jnp.array([0.2, -jnp.inf, 0.9])
    np.testing.assert_allclose(ux.Simplex().project(some_off), [0.15, 0, 0.85], rtol=1e-6)


@pytest.mark.parametrize(
    "geometry",
    [
        ux.L2Ball(0.0),
        ux.L1Ball(0.0),
        ux.Box(0.0, 0.0),
        ux.GroupBall(0.0, axis=None),
        ux.PNormBall(0.0),
        ux.EntropicBox(0.0, 0.0),
        ux.MonotoneBox(0.0, 0.0),
        ux.Penalized(ux.Box(0.0, 0.0), ux.L1Norm()),
        ux.Penalized(ux.L2Ball(0.0), ux.ElasticNet()),
    ],
    ids=name,
)
def test_sets_of_one_point(geometry: ux.Geometry) -> None:
    point = jnp.array([3.0, -1.0, 0.0])
    np.testing.assert_array_equal(geometry.project(point), np.zeros(3))
    np.testing.assert_array_equal(geometry.minimize_linear(point), np.zeros(3))
    mirror = geometry.to_mirror(jnp.zeros(3))
    np.testing.assert_array_equal(geometry.to_point(geometry.step(mirror, point, 1.0)), np.zeros(3))
    assert float(geometry.diameter(point)) == 0
    assert np.isfinite(jax.jit(jax.jacrev(geometry.project))(point)).all()


@pytest.mark.parametrize("geometry", [ux.L2Ball(0.0), ux.EntropicBox(0.0, 0.0)], ids=name)
def test_solves_on_sets_of_one_point_stay_there(geometry: ux.Geometry) -> None:
    run = ux.solve(lambda x: jnp.vdot(x, jnp.arange(3.0)), geometry, jnp.ones(3), 5, offset=None)
    np.testing.assert_array_equal(run.params, np.zeros(3))


@pytest.mark.parametrize("geometry", [ux.NuclearBall(0.0), ux.SpectralBall(0.0)], ids=name)
def test_matrix_sets_of_one_point(geometry: ux.Geometry) -> None:
    point = jnp.array([[3.0, -1.0], [0.0, 2.0], [1.0, 1.0]])
    np.testing.assert_array_equal(geometry.project(point), np.zeros((3, 2)))
    np.testing.assert_array_equal(geometry.minimize_linear(point), np.zeros((3, 2)))
    assert float(geometry.diameter(point)) == 0
    assert np.isfinite(jax.jit(jax.jacrev(geometry.project))(point)).all()


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


@pytest.mark.parametrize(
    "geometry",
    [
        ux.EntropicSimplex(),
        ux.ShiftedEntropySimplex(),
        ux.CappedSimplex(1.0, 1e-4),
        ux.EntropicL1Ball(),
        ux.PNormBall(1.0, 1.07),
        ux.GroupBall(),
        ux.Box(-1.0, 1.0),
        ux.EntropicBox(-1.0, 1.0),
        pytest.param(ux.MonotoneBox(-1.0, 1.0), marks=pytest.mark.slow),  # compiles long
    ],
    ids=name,
)
def test_a_million_entries_stay_feasible(geometry: ux.Geometry) -> None:
    values = np.random.default_rng(0).normal(size=(250_000, 4))
    point, gradient = (jnp.asarray(v, jnp.float32) for v in (values, values[::-1]))
    start = geometry.project(point)
    stepped = geometry.to_point(geometry.step(geometry.to_mirror(start), gradient, 0.1))
    eps = np.finfo(np.float32).eps
    for x in (start, stepped):
        wide = np.asarray(x, np.float64)
        assert np.isfinite(wide).all()
        assert float(geometry.violation(x)) <= 32 * eps  # the sum here is rounded, too
        if isinstance(geometry, ux.EntropicSimplex | ux.ShiftedEntropySimplex | ux.CappedSimplex):
            assert abs(wide.sum() - 1) <= 8 * eps
        if isinstance(geometry, ux.EntropicL1Ball):
            assert np.abs(wide).sum() <= 1 + 8 * eps
        if isinstance(geometry, ux.GroupBall):
            assert np.linalg.norm(wide, axis=1).sum() <= 1 + 8 * eps


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


def test_axis_specifications_can_be_geometries() -> None:
    """`in_axes` for vmap is a geometry of axis numbers and None."""
    boxes = ux.Box(0.0, jnp.array([1.0, 2.0]))
    axes = ux.Box(lower=None, upper=0)
    projected = jax.vmap(lambda box: box.project(jnp.array(5.0)), in_axes=(axes,))(boxes)
    np.testing.assert_array_equal(projected, [1.0, 2.0])
