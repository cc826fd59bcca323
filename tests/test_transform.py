"""The optax transform in the loops, wrappers and transformations of optax users."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unixgrad_jax as ux
from tests import problems

A, _, B = (jnp.asarray(array, jnp.float32) for array in problems.regression_data(30, 9))


BALL = ux.L2Ball()


def objective(params: Any) -> jax.Array:
    return problems.least_squares(problems.as_vector(params), A, B)


def start(geometry: ux.Geometry) -> Any:
    return geometry.project(problems.as_tree(jnp.linspace(0.1, 0.4, 9)))


def run(
    optimizer: optax.GradientTransformation, params: Any, num_updates: int = 60
) -> tuple[Any, Any]:
    """Return params and state after updates inside one scan."""

    def update(carry: tuple, _: None) -> tuple[tuple, None]:
        params, state = carry
        updates, state = optimizer.update(jax.grad(objective)(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(update, (params, optimizer.init(params)), length=num_updates)[0]


each_geometry = pytest.mark.parametrize(
    "geometry", problems.GEOMETRIES.values(), ids=problems.GEOMETRIES.keys()
)


@each_geometry
def test_half_steps_opaque_steps_and_solve_give_the_same_answer(geometry: ux.Geometry) -> None:
    params, state = run(ux.unixgrad(geometry), start(geometry))
    half = problems.as_vector(ux.eval_params(state, params))
    opaque = ux.solve(
        objective, geometry, start(geometry), 30, optimizer=ux.unixgrad(geometry, opaque=True)
    )
    full = ux.solve(objective, geometry, start(geometry), 30)
    np.testing.assert_allclose(problems.as_vector(opaque.params), half, atol=2e-5)
    np.testing.assert_allclose(problems.as_vector(full.params), half, atol=2e-5)


@each_geometry
@pytest.mark.parametrize("opaque", [False, True])
def test_the_state_never_changes_structure_shape_dtype_or_weak_type(
    geometry: ux.Geometry, opaque: bool
) -> None:
    optimizer = ux.unixgrad(geometry, opaque=opaque)
    params = start(geometry)
    state = optimizer.init(params)
    gradient = jax.grad(objective)(params)
    _, after = optimizer.update(gradient, state, params, grad_fn=jax.grad(objective))
    assert jax.tree.structure(state) == jax.tree.structure(after)
    for before, now in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert jax.typeof(before) == jax.typeof(now)
        assert not before.weak_type
    abstract = jax.eval_shape(optimizer.init, params)
    assert jax.tree.structure(abstract) == jax.tree.structure(state)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
        jax.jit(optimizer.init)(params),
        state,
    )


def test_params_and_state_can_be_donated_together() -> None:
    optimizer = ux.unixgrad(ux.L2Ball(2.0))

    def step(params: Any, state: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(jax.grad(objective)(params), state, params)
        return optax.apply_updates(params, updates), state

    params = start(ux.L2Ball(2.0))
    state = optimizer.init(params)
    expected = step(params, state)
    got = jax.jit(step, donate_argnums=(0, 1))(params, state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got, expected)


def test_init_does_not_alias_the_params() -> None:
    params = jnp.zeros(3)
    state = ux.unixgrad(ux.L2Ball()).init(params)
    leaves = [params, *jax.tree.leaves(state)]
    pointers = [leaf.unsafe_buffer_pointer() for leaf in leaves]
    assert len(set(pointers)) == len(pointers)


def test_a_jitted_step_is_traced_once() -> None:
    traces = []

    @jax.jit
    def step(params: Any, state: Any, diameter: Any, geometry: ux.Geometry) -> tuple[Any, Any]:
        traces.append(None)
        optimizer = ux.unixgrad(geometry, diameter=diameter)
        updates, state = optimizer.update(jax.grad(objective)(params), state, params)
        return optax.apply_updates(params, updates), state

    params = start(ux.L2Ball(2.0))
    state = ux.unixgrad(ux.L2Ball(2.0)).init(params)
    for diameter in [2.0, 3.0, 4.0]:
        params, state = step(params, state, diameter, ux.L2Ball(diameter))
    assert len(traces) == 1


def test_chain_after_clipping_equals_clipped_gradients_by_hand() -> None:
    geometry = ux.Simplex(1.5)
    params, state = run(
        optax.chain(optax.clip_by_global_norm(0.1), ux.unixgrad(geometry)), start(geometry)
    )

    def clipped(tree: Any) -> Any:
        gradient = jax.grad(objective)(tree)
        return optax.tree.scale(jnp.minimum(1, 0.1 / optax.tree.norm(gradient)), gradient)

    alone = ux.unixgrad(geometry)
    by_hand = start(geometry)
    hand_state = alone.init(by_hand)
    for _ in range(60):
        updates, hand_state = alone.update(clipped(by_hand), hand_state, by_hand)
        by_hand = optax.apply_updates(by_hand, updates)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        ux.eval_params(state, params),
        ux.eval_params(hand_state, by_hand),
    )


def test_vmap_of_the_transform_over_starts_radii_and_diameters_is_a_loop() -> None:
    radii = jnp.array([0.5, 1.0, 3.0])
    diameters = jnp.array([1.0, 2.0, 0.7])
    starts = jax.vmap(problems.as_tree)(jnp.linspace(-1, 1, 27).reshape(3, 9))

    def answer(radius: jax.Array, diameter: jax.Array, params: Any) -> jax.Array:
        optimizer = ux.unixgrad(ux.L2Ball(radius), diameter=diameter)
        params, state = run(optimizer, params)
        return problems.as_vector(ux.eval_params(state, params))

    batch = jax.vmap(answer)(radii, diameters, starts)
    for i in range(3):
        alone = answer(radii[i], diameters[i], jax.tree.map(lambda leaf, i=i: leaf[i], starts))
        np.testing.assert_allclose(batch[i], alone, atol=2e-5)


def test_stopping_between_the_halves_and_going_on_is_exact() -> None:
    optimizer = ux.unixgrad(ux.L1Ball(2.0))
    whole = run(optimizer, start(ux.L1Ball(2.0)), 8)
    params, state = run(optimizer, start(ux.L1Ball(2.0)), 3)
    assert bool(state.halfway)
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, state))
    state = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
    for _ in range(5):
        updates, state = jax.jit(optimizer.update)(jax.grad(objective)(params), state, params)
        params = optax.apply_updates(params, updates)
    assert int(state.step) == 4
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), (params, state), whole)


def test_the_answer_is_found_through_wrappers() -> None:
    geometry = ux.L2Ball(1.0)
    params = {"in": jnp.array([0.3, 0.4]), "out": jnp.array([5.0])}
    labels = {"in": "set", "out": "free"}
    plain = ux.unixgrad(geometry)
    wrapped = [
        optax.chain(optax.zero_nans(), plain),
        optax.named_chain(("a", optax.identity()), ("b", plain)),
        optax.MultiSteps(plain, 2),
        optax.apply_if_finite(plain, 3),
        optax.inject_hyperparams(ux.unixgrad)(geometry, diameter=1.5),
    ]
    for optimizer in wrapped:
        state = optimizer.init(params["in"])
        np.testing.assert_allclose(ux.eval_params(state, params["in"]), params["in"], rtol=1e-6)
    for optimizer in [
        optax.partition({"set": plain, "free": optax.sgd(0.1)}, labels),
        optax.masked(plain, {"in": True, "out": False}),
    ]:
        state = optimizer.init(params)
        gradient = {"in": jnp.ones(2), "out": jnp.ones(1)}
        _, state = optimizer.update(gradient, state, params)
        answer = ux.eval_params(state, params)
        np.testing.assert_array_equal(answer["out"], params["out"])
        assert float(geometry.violation(answer["in"])) <= 1e-6
        assert not np.allclose(answer["in"], params["in"])


@pytest.mark.parametrize("wrap", [lambda o: optax.MultiSteps(o, 2), lambda o: o], ids=["2", "1"])
def test_accumulated_small_batches_equal_big_ones_in_both_halves(wrap: Any) -> None:
    """Gradients of the two halves of the data in turn, averaged by MultiSteps over two calls."""
    optimizer = wrap(ux.unixgrad(ux.L2Ball(2.0)))
    accumulates = isinstance(optimizer, optax.MultiSteps)
    params = jnp.linspace(0.1, 0.4, 9)
    state = optimizer.init(params)
    parts = [(A[:15], B[:15]), (A[15:], B[15:])] if accumulates else [(A, B)]
    for _ in range(20):
        for rows, targets in parts:
            gradient = jax.grad(problems.least_squares)(params, rows, targets)
            updates, state = jax.jit(optimizer.update)(gradient, state, params)
            params = optax.apply_updates(params, updates)
    expected = ux.solve(problems.least_squares, ux.L2Ball(2.0), jnp.linspace(0.1, 0.4, 9), 10,
                        args=(A, B))  # fmt: skip
    np.testing.assert_allclose(ux.eval_params(state, params), expected.params, atol=1e-5)


def test_steps_that_are_not_finite_can_be_skipped() -> None:
    optimizer = optax.apply_if_finite(ux.unixgrad(ux.Simplex()), 5)
    params = jnp.array([0.5, 0.5])
    state = optimizer.init(params)
    for gradient in [jnp.array([1.0, 0.0]), jnp.array([jnp.nan, 0.0]), jnp.array([1.0, 0.0])]:
        updates, state = optimizer.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    assert float(ux.Simplex().violation(params)) <= 1e-6
    assert int(ux.eval_params(state, params).argmax()) == 1


def test_each_block_of_a_partition_equals_a_run_of_its_own() -> None:
    geometry = ux.Simplex()
    target = jnp.array([0.7, 0.1, 0.9])

    def loss(params: dict) -> jax.Array:
        return jnp.sum((params["set"] - target) ** 2) + jnp.sum((params["free"] - 2.0) ** 2)

    optimizer = optax.partition(
        {"a": ux.unixgrad(geometry), "b": optax.sgd(0.1)}, {"set": "a", "free": "b"}
    )
    params = {"set": geometry.interior_point(target), "free": jnp.zeros(2)}
    state = optimizer.init(params)
    alone = ux.unixgrad(geometry)
    single, single_state = params["set"], alone.init(params["set"])
    for _ in range(20):
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, updates)
        gradient = 2 * (single - target)
        updates, single_state = alone.update(gradient, single_state, single)
        single = optax.apply_updates(single, updates)
    np.testing.assert_allclose(params["set"], single, atol=1e-6)


def test_injected_hyperparameters_act() -> None:
    geometry = ux.L2Ball(2.0)
    injected = optax.inject_hyperparams(ux.unixgrad)(geometry, diameter=0.5, offset=2.0)
    plain = ux.unixgrad(geometry, diameter=0.5, offset=2.0)
    params, state = run(injected, start(geometry))
    expected, expected_state = run(plain, start(geometry))
    np.testing.assert_allclose(
        problems.as_vector(ux.eval_params(state, params)),
        problems.as_vector(ux.eval_params(expected_state, expected)),
        atol=1e-5,
    )


def test_gradients_flow_through_an_unrolled_loop(dtype: np.dtype) -> None:
    def answer(radius: jax.Array) -> jax.Array:
        optimizer = ux.unixgrad(ux.L2Ball(radius))
        params = jnp.zeros(2, dtype)
        state = optimizer.init(params)
        for _ in range(10):
            gradient = 2 * (params - jnp.array([3.0, 4.0], dtype))
            updates, state = optimizer.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        return ux.eval_params(state, params)[0]

    h = 1e-2 if dtype == np.float32 else 1e-6
    at = jnp.asarray(1.0, dtype)
    expected = (answer(at + h) - answer(at - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(answer)(at), expected, rtol=1e-2)


@pytest.mark.parametrize("opaque", [False, True])
def test_unknown_extra_arguments_are_ignored(opaque: bool) -> None:
    optimizer = ux.unixgrad(ux.Box(), opaque=opaque)
    params = jnp.array([0.5])
    state = optimizer.init(params)
    optimizer.update(
        params, state, params=params, grad_fn=lambda p: p, value=1.0, batch=None, loss_scale=2
    )


def test_an_infeasible_start_is_projected() -> None:
    optimizer = ux.unixgrad(ux.L2Ball(1.0))
    params = jnp.array([30.0, 40.0])
    state = optimizer.init(params)
    np.testing.assert_allclose(ux.eval_params(state, params), [0.6, 0.8], rtol=1e-6)
    updates, state = optimizer.update(jnp.array([1.0, 0.0]), state, params)
    moved = optax.apply_updates(params, updates)
    assert float(jnp.linalg.norm(moved)) <= 1 + 1e-5


def test_zero_gradients_stay_and_are_finite() -> None:
    for offset in [1.0, None]:
        optimizer = ux.unixgrad(ux.L2Ball(1.0), offset=offset)
        params = jnp.array([0.5, 0.25], jnp.float16)
        state = optimizer.init(params)
        for _ in range(4):
            updates, state = optimizer.update(jnp.zeros_like(params), state, params)
            assert updates.dtype == jnp.float16
            params = optax.apply_updates(params, updates)
        np.testing.assert_array_equal(params, [0.5, 0.25])


def test_python_numbers_can_be_params() -> None:
    optimizer = ux.unixgrad(ux.Box(-1.0, 1.0))
    params = {"a": 0.5, "b": 2}
    state = optimizer.init(params)
    updates, state = optimizer.update({"a": 1.0, "b": 1.0}, state, params)
    answer = ux.eval_params(state, params)
    assert answer["b"].dtype == updates["b"].dtype == jnp.result_type(float)
    np.testing.assert_allclose(answer["a"], -1.0)


def test_optax_can_map_over_the_parts_of_the_state_that_are_like_params() -> None:
    optimizer = ux.unixgrad(ux.L2Ball())
    state = optimizer.init({"w": jnp.ones(3)})
    mapped = optax.tree.map_params(optimizer, lambda leaf: leaf * 0, state)
    assert float(jnp.sum(mapped.average["w"])) == 0
    assert mapped.step.dtype == jnp.int32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ux.unixgrad(ux.L2Ball), TypeError, "geometry must be a unixgrad_jax.Geometry"),
        (lambda: ux.unixgrad(ux.L2Ball(), diameter=-1.0), ValueError, "diameter must be non-neg"),
        (lambda: ux.unixgrad(ux.L2Ball(), offset=0.0), ValueError, "offset must be positive"),
        (lambda: updated(jnp.ones(2), None), ValueError, "this optimizer needs the params"),
        (lambda: updated(jnp.ones(3), jnp.ones(2)), ValueError, r"shape \(3,\) where params"),
        (lambda: updated([jnp.ones(2)], jnp.ones(2)), ValueError, "must have the structure"),
        (lambda: updated(jnp.ones(2), jnp.ones(2), opaque=True), ValueError, "grad_fn"),
        (lambda: ux.unixgrad(ux.L2Ball()).init(jnp.ones(2) * 1j), TypeError, "real numbers"),
        (lambda: updated(jnp.ones(2), jnp.ones(2), geometry=ux.Box(0.0, np.inf)), ValueError,
         "give diameter="),
        (lambda: ux.eval_params(optax.adam(0.1).init(jnp.ones(2)), jnp.ones(2)), ValueError,
         "found none in a tuple"),
        (lambda: ux.eval_params([ux.unixgrad(ux.L2Ball()).init(jnp.ones(2))] * 2, jnp.ones(2)),
         ValueError, "found 2 of them"),
    ],
)  # fmt: skip
def test_mistakes_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def updated(gradient: Any, params: Any, *, geometry: ux.Geometry = BALL, **options: Any) -> Any:
    optimizer = ux.unixgrad(geometry, **options)
    return optimizer.update(gradient, optimizer.init(jnp.ones(2)), params)


def test_masked_params_in_opaque_mode_name_the_half_step_mode() -> None:
    optimizer = optax.masked(ux.unixgrad(ux.L2Ball(), opaque=True), {"a": True, "b": False})
    params = {"a": jnp.ones(2), "b": jnp.ones(2)}
    with pytest.raises(ValueError, match="half-step mode"):
        optimizer.update(params, optimizer.init(params), params, grad_fn=lambda p: p)
