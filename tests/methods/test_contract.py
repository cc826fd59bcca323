"""What optax asks of an optimizer: the two functions, the state, the dtypes, the common checks."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import unixgrad_jax as ux
from tests.methods.catalogue import (
    START,
    TARGET,
    WHOLE,
    Method,
    answer,
    each_method,
    each_method_with,
    each_opaque_method,
    each_plain_method,
    gradient,
    run,
    step,
    table,
)
from tests.precision import x64_set

BALL = ux.L2Ball(1.0)
each_method_and_dtype = each_method_with("name", ["float32", "float16", "bfloat16", "float64"])


def in_dtype(tree: Any, name: str) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(name), tree)


def precision(name: str) -> Any:
    """Return the context with x64 on where the dtype is float64, off elsewhere."""
    return x64_set(name == "float64")


def types(tree: Any) -> list[Any]:
    return [jax.typeof(leaf) for leaf in jax.tree.leaves(tree)]


@each_method
def test_a_method_is_a_pair_of_functions_with_the_names_of_optax(method: Method) -> None:
    optimizer = method.make(BALL)
    assert isinstance(optimizer, optax.GradientTransformationExtraArgs)
    assert list(inspect.signature(optimizer.init).parameters) == ["params"]
    parameters = inspect.signature(optimizer.update).parameters
    assert list(parameters)[:3] == ["updates", "state", "params"]
    assert parameters["params"].default is None
    assert list(parameters.values())[-1].kind is inspect.Parameter.VAR_KEYWORD


@each_method
def test_unknown_extra_arguments_are_ignored_and_compile_nothing(method: Method) -> None:
    optimizer, traces = method.make(BALL), []

    @jax.jit
    def update(params: Any, state: Any, **extra: Any) -> Any:
        traces.append(None)
        return optimizer.update(
            gradient(params), state, params=params, grad_fn=gradient, batch=None, **extra
        )

    state = optimizer.init(START)
    first = update(START, state, value=1.0, loss_scale=2)
    second = update(START, state, value=3.0, loss_scale=4)
    assert len(traces) == 1
    plain = jax.jit(lambda *args: optimizer.update(*args, grad_fn=gradient))
    expected = plain(gradient(START), state, START)
    for got in (first, second):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got, expected)


@each_method_and_dtype
def test_the_state_keeps_its_types_in_every_kind_of_loop(method: Method, name: str) -> None:
    """In a scan of 30,000 in a branch in a while loop: the carry of each must keep its types."""
    with precision(name):
        optimizer, params = method.make(BALL), in_dtype(START, name)
        state = optimizer.init(params)
        assert not any(leaf.weak_type for leaf in jax.tree.leaves(state))
        fresh = lambda carry: carry[1].step == 0  # noqa: E731

        def scan(carry: tuple[Any, Any]) -> tuple[Any, Any]:
            length = 30_000 if name == "float32" else 1_000
            return lax.scan(
                lambda c, _: (step(optimizer, *c, gradient), None), carry, None, length
            )[0]

        @jax.jit
        def loops(carry: tuple[Any, Any]) -> Any:
            branch = lambda carry: lax.cond(fresh(carry), scan, lambda same: same, carry)  # noqa: E731
            return lax.while_loop(fresh, branch, carry)

        last, last_state = loops((params, state))
        assert jax.tree.structure(last_state) == jax.tree.structure(state)
        assert types((last, last_state)) == types((params, state))
        assert float(BALL.violation(last)) <= 16 * jnp.finfo(name).eps
        nearest = BALL.project(in_dtype(TARGET, name))
        error = optax.tree.norm(in_dtype(optax.tree.sub(last, nearest), "float32"))
        assert float(error) <= 16 * jnp.finfo(name).eps + 1e-5


@each_method
def test_init_compiles_and_has_an_abstract_form(method: Method) -> None:
    optimizer = method.make(BALL)
    state = optimizer.init(START)
    abstract = jax.eval_shape(optimizer.init, START)
    assert jax.tree.structure(abstract) == jax.tree.structure(state)
    assert [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(abstract)] == [
        (leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(state)
    ]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
        jax.jit(optimizer.init)(START),
        state,
    )


@each_method
def test_optax_can_map_over_the_parts_of_the_state_that_are_like_params(method: Method) -> None:
    optimizer = method.make(BALL)
    state = optimizer.init(START)
    marked = optax.tree.map_params(
        optimizer, lambda _: "like params", state, transform_non_params=lambda _: "other"
    )
    size = len(jax.tree.leaves(START))
    for field, value in state._asdict().items():
        leaves = jax.tree.leaves(getattr(marked, field))
        like = jax.tree.structure(value) == jax.tree.structure(START)
        assert leaves == (["like params"] * size if like else ["other"] * len(leaves)), field


@each_method
def test_params_and_state_can_be_donated_together(method: Method) -> None:
    optimizer = method.make(BALL)
    expected = step(optimizer, START, optimizer.init(START), gradient)
    params = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), START)
    state = optimizer.init(params)
    pointers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((params, state))]
    assert len(set(pointers)) == len(pointers)
    donating = jax.jit(lambda *args: step(optimizer, *args, gradient), donate_argnums=(0, 1))
    got = donating(params, state)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(params))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got, expected)


@pytest.mark.skipif(
    jax.default_backend() != "cpu" or jax.__version_info__ < (0, 10),
    reason="other backends and older compilers fuse otherwise",
)
@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize(
    "geometry",
    [ux.Box(-1.0, 1.0), ux.L2Ball(), ux.Product([ux.L2Ball(), ux.Box()])],
    ids=["box", "l2 ball", "product"],
)
def test_an_update_of_large_params_allocates_no_array_of_their_size(
    geometry: ux.Geometry, opaque: bool
) -> None:
    """Each array of the state is overwritten where it lies, once no one reads it any more."""
    optimizer = ux.unixgrad(geometry, opaque=opaque)

    def update(params: Any, state: Any, gradients: list) -> Any:
        def second(point: Any) -> Any:
            gradients[1] = jax.tree.map(lambda g, x: g / (1 + 0 * x), gradients[1], point)
            return gradients[1]

        extra = {"grad_fn": second} if opaque else {}
        updates, state = optimizer.update(gradients[0], state, params, **extra)
        return optax.apply_updates(params, updates), state, gradients

    params = [jnp.zeros(2**19), jnp.zeros(2**18)]
    arguments = params, optimizer.init(params), [params, params]
    compiled = jax.jit(update, donate_argnums=(0, 1, 2)).lower(*arguments).compile()
    memory = compiled.memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 2**16


@each_method
def test_new_hyperparameters_and_sets_of_the_same_shapes_compile_nothing(method: Method) -> None:
    traces = []

    @jax.jit
    def step_in(radius: Any, hyperparameters: dict, params: Any, state: Any) -> tuple[Any, Any]:
        traces.append(None)
        return step(method.make(ux.L2Ball(radius), **hyperparameters), params, state, gradient)

    params, state = START, method.make(BALL).init(START)
    for factor in [1.0, 1.5, 2.0]:
        scaled = {name: factor * value for name, value in method.hyperparameters.items()}
        params, state = step_in(factor, scaled, params, state)
    assert len(traces) == 1
    as_arrays = jax.tree.map(jnp.asarray, method.hyperparameters)
    for hyperparameters in (as_arrays, jax.tree.map(lambda value: value + 1, as_arrays)):
        step_in(jnp.asarray(1.0), hyperparameters, params, state)
    assert len(traces) <= 2


@each_method_and_dtype
def test_updates_keep_the_dtypes_of_params_and_accumulators_have_float32_at_least(
    method: Method, name: str
) -> None:
    with precision(name):
        optimizer = method.make(BALL)
        params = in_dtype(START, name) | {"a": START["a"].astype(jnp.bfloat16)}
        state = optimizer.init(params)
        update = jax.jit(lambda *args: optimizer.update(*args, grad_fn=gradient))
        updates, state = update(gradient(params), state, params)
        assert types(updates) == types(params)
        assert types(optax.apply_updates(params, updates)) == types(params)
        floats = [
            leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)
        ]
        assert all(jnp.finfo(leaf.dtype).bits >= 32 for leaf in floats)
        assert {leaf.dtype for leaf in floats} == {np.dtype("float32"), np.dtype(name)} - {
            np.dtype("float16"), np.dtype(jnp.bfloat16)}  # fmt: skip
        assert types(ux.eval_params(state, params)) == types(params)


@each_method
def test_arrays_of_numpy_in_float64_are_float32_where_x64_is_off(method: Method) -> None:
    optimizer = method.make(BALL)
    with x64_set(False):
        params = np.array([0.25, 0.5])
        state = optimizer.init(params)
        updates, state = optimizer.update(params - 1, state, params, grad_fn=lambda p: p - 1)
        assert updates.dtype == state.output.dtype == jnp.float32
        assert ux.eval_params(state, params).dtype == jnp.float32


@each_method_and_dtype
def test_zero_gradients_leave_params_where_they_are(method: Method, name: str) -> None:
    with precision(name):
        params = in_dtype(START, name)
        zero = optax.tree.zeros_like(params)
        stayed, state = run(method.make(BALL), params, lambda _: zero, 4)
        jax.tree.map(np.testing.assert_array_equal, stayed, params)
        jax.tree.map(np.testing.assert_array_equal, ux.eval_params(state, params), params)
        assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state))


@each_method_and_dtype
def test_late_steps_do_not_overflow(method: Method, name: str) -> None:
    with precision(name):
        optimizer, params = method.make(BALL), in_dtype(START, name)
        init = jax.jit(optimizer.init)(params)
        for late in (65_536, 2**31 - 2):
            state = init._replace(step=jnp.asarray(late, jnp.int32))
            last, state = run(optimizer, params, gradient, 3 * method.period, state)
            assert int(state.step) == min(late + 3, 2**31 - 1)
            assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((last, state)))
            assert float(BALL.violation(last)) <= 16 * jnp.finfo(name).eps


def parabola(x: jax.Array) -> jax.Array:
    return jnp.sum((x - jnp.array([1.0, -1.0, 1.0])) ** 2)


def rosenbrock(x: jax.Array) -> jax.Array:
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def matrix(x: jax.Array) -> jax.Array:
    """Return the squared error of a product with a fixed, invertible matrix."""
    mixing = jnp.array([[2.0, 1.0], [0.0, 1.0]])
    return jnp.sum((mixing @ x - mixing @ jnp.array([[1.0, 0.5], [-0.5, 2.0]])) ** 2)


def mixed(x: tuple[jax.Array, dict[str, jax.Array]]) -> jax.Array:
    return (x[0] - 0.5) ** 2 + jnp.sum((x[1]["w"] - jnp.array([[1.0, -2.0]])) ** 2)


TARGETS: dict[str, tuple[Callable, ux.Geometry, Any, Any]] = {
    "parabola": (parabola, ux.L2Ball(3.0), jnp.array([-1.0, 2.0, 1.0]), jnp.array([1.0, -1, 1])),
    "matrix": (matrix, ux.L2Ball(4.0), jnp.zeros((2, 2)), jnp.array([[1.0, 0.5], [-0.5, 2.0]])),
    "mixed tuple": (
        mixed,
        ux.L2Ball(4.0),
        (jnp.zeros(()), {"w": jnp.zeros((1, 2))}),
        (jnp.array(0.5), {"w": jnp.array([[1.0, -2.0]])}),
    ),
}


@each_method_with("name", list(TARGETS))
def test_known_targets_are_reached(method: Method, name: str) -> None:
    objective, geometry, params, target = TARGETS[name]
    reached = answer(method.make(geometry), params, jax.grad(objective), 20_000)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=3e-2), reached, target)


@pytest.mark.parametrize("method", table([*WHOLE, "unixgrad_opaque"]))
def test_unixgrad_reaches_the_end_of_a_curved_valley(method: Method) -> None:
    reached = answer(method.make(ux.L2Ball(3.0)), jnp.zeros(2), jax.grad(rosenbrock), 20_000)
    np.testing.assert_allclose(reached, jnp.ones(2), atol=3e-2)


@each_plain_method
def test_an_infeasible_start_is_projected(method: Method) -> None:
    optimizer = method.make(BALL)
    params = jnp.array([30.0, 40.0])
    state = optimizer.init(params)
    np.testing.assert_allclose(ux.eval_params(state, params), [0.6, 0.8], rtol=1e-6)
    updates, state = optimizer.update(jnp.array([1.0, 0.0]), state, params)
    assert float(BALL.violation(optax.apply_updates(params, updates))) <= 1e-5


def updated(params: Any, incoming: Any, geometry: ux.Geometry = BALL, **options: Any) -> Any:
    optimizer = ux.unixgrad(geometry, **options)
    return optimizer.update(incoming, optimizer.init(jnp.ones(2)), params)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ux.unixgrad(ux.L2Ball), TypeError, "geometry must be a unixgrad_jax.Geometry"),
        (lambda: ux.unixgrad(BALL, diameter=-1.0), ValueError, "diameter must be non-neg"),
        (lambda: ux.unixgrad(BALL, offset=0.0), ValueError, "offset must be positive"),
        (lambda: updated(jnp.ones(2), jnp.ones(3)), ValueError, r"shape \(3,\) where params"),
        (lambda: updated(jnp.ones(2), [jnp.ones(2)]), ValueError, "must have the structure"),
        (lambda: updated(jnp.ones(1), jnp.ones(1)), ValueError, "params of the state must have"),
        (lambda: updated(jnp.ones(2), 1j * jnp.ones(2)), TypeError, "gradients must be real"),
        (lambda: updated(1j * jnp.ones(2), jnp.ones(2)), TypeError, "params and gradients must"),
        (lambda: ux.unixgrad(BALL).init(jnp.ones(2) * 1j), TypeError, "real numbers"),
        (lambda: ux.unixgrad(BALL, diameter=lambda step: 1.0), TypeError, "inject_hyperparams"),
        (lambda: ux.unixgrad(BALL, offset=[1.0]), TypeError, "offset must be a real number"),
        (lambda: ux.unixgrad(ux.CappedSimplex(3.0)).init(jnp.ones(2)), ValueError, "is empty"),
        (lambda: updated(jnp.ones(2), jnp.ones(2), ux.Box(0.0, np.inf)), ValueError,
         "give diameter="),
    ],
)  # fmt: skip
def test_mistakes_are_named(call: Callable, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_the_state_of_one_mode_is_refused_by_the_other() -> None:
    params = jnp.ones(2)
    halves, whole = (ux.unixgrad(BALL, opaque=opaque) for opaque in (False, True))
    for optimizer, other in ((halves, whole), (whole, halves)):
        with pytest.raises(ValueError, match="mode needs one from its own init"):
            optimizer.update(params, other.init(params), params, grad_fn=lambda p: p)


@each_method
def test_params_of_another_shape_than_the_state_are_named(method: Method) -> None:
    optimizer = method.make(BALL)
    state = optimizer.init(jnp.ones(2))
    with pytest.raises(ValueError, match=r"the params of the state .* shape \(2,\) where"):
        optimizer.update(jnp.ones(()), state, jnp.ones(()), grad_fn=lambda p: p)


@each_method
def test_an_update_wider_than_its_dtype_goes_as_far_as_it_can(method: Method) -> None:
    box, params = ux.Box(-61_440.0, -49_152.0), jnp.full(2, 60_000.0, jnp.float16)
    optimizer = method.make(box)
    state = optimizer.init(params)
    for _ in range(2 * method.period):
        params, state = step(optimizer, params, state, jnp.zeros_like)
    assert float(box.violation(params)) == 0
    assert float(box.violation(ux.eval_params(state, params))) == 0


@each_method
def test_missing_params_are_named(method: Method) -> None:
    optimizer = method.make(BALL)
    with pytest.raises(ValueError, match="this optimizer needs the params"):
        optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)), grad_fn=lambda p: p)


@each_opaque_method
def test_opaque_methods_name_what_they_lack(method: Method) -> None:
    optimizer = method.make(BALL)
    with pytest.raises(ValueError, match=r"update\(..., grad_fn=...\)"):
        optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)), jnp.ones(2))
    params = {"a": jnp.ones(2), "b": jnp.ones(2)}
    for hiding in (
        optax.masked(optimizer, {"a": True, "b": False}),
        optax.partition({"x": optimizer, "y": optax.sgd(0.1)}, {"a": "x", "b": "y"}),
    ):
        with pytest.raises(ValueError, match="half-step mode"):
            hiding.update(params, hiding.init(params), params, grad_fn=lambda p: p)
