"""Methods inside the wrappers of optax: the same run, and the answer found through all of them."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest

import unixgrad_jax as ux
from tests import problems
from tests.methods.catalogue import (
    START,
    TARGET,
    Method,
    answer,
    each_method,
    each_method_with,
    each_plain_method,
    gradient,
    run,
    step,
)
from tests.sampling import by_default

BALL = ux.L2Ball(1.0)


def accumulating(optimizer: Any, parts: int) -> optax.GradientTransformationExtraArgs:
    """Return MultiSteps as a transform that hands extra arguments on, as the object does."""
    steps = optax.MultiSteps(optimizer, parts)
    return optax.GradientTransformationExtraArgs(steps.init, steps.update)


Wrap = Callable[[optax.GradientTransformationExtraArgs], optax.GradientTransformation]
NEUTRAL: dict[str, Wrap] = {
    "chain": lambda o: optax.chain(optax.clip_by_global_norm(1e6), optax.zero_nans(), o),
    "named chain": lambda o: optax.named_chain(("nothing", optax.identity()), ("method", o)),
    "nested chain": lambda o: optax.chain(optax.identity(), optax.chain(o, optax.identity())),
    "apply_if_finite": lambda o: optax.apply_if_finite(o, 3),
    "partition": lambda o: optax.partition({"all": o}, "all"),
    "masked": lambda o: optax.masked(o, True),
    "MultiSteps": lambda o: accumulating(o, 1),
    "conditionally_mask": lambda o: optax.conditionally_mask(o, lambda step, **_: step >= 0),
    "flatten": optax.flatten,
    "split_real_and_imaginary": optax.contrib.split_real_and_imaginary,
    "with_extra_args_support": optax.with_extra_args_support,
}


def assert_close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance), got, expected)


REARRANGING = ("flatten", "split_real_and_imaginary")  # grad_fn would be given what they made


@each_method_with(
    "name", list(NEUTRAL), lambda method, name: not (method.opaque and name in REARRANGING)
)
def test_wrappers_that_change_nothing_give_the_plain_run(method: Method, name: str) -> None:
    params, state = run(NEUTRAL[name](method.make(BALL)), START, gradient, 7)
    expected, expected_answer = plain_run(method.make)
    assert_close(params, expected)
    read = ux.eval_params(state, params)
    assert jax.tree.structure(read) == jax.tree.structure(START)
    assert_close(read, expected_answer)


@functools.cache
def plain_run(make: Callable) -> tuple[Any, Any]:
    params, state = run(make(BALL), START, gradient, 7)
    return params, ux.eval_params(state, params)


@each_method
def test_a_chain_after_clipping_is_a_run_on_clipped_gradients(method: Method) -> None:
    def clipped(params: Any) -> Any:
        raw = gradient(params)
        return optax.tree.scale(jnp.minimum(1, 0.1 / optax.tree.norm(raw)), raw)

    optimizer = method.make(BALL)
    chained = optax.chain(optax.clip_by_global_norm(0.1), optimizer)
    # Only the incoming gradient is clipped: what grad_fn returns is the caller's.
    got = run_with(chained, gradient, clipped)
    assert_close(got, run_with(optimizer, clipped, clipped))


def run_with(optimizer: Any, incoming: Callable, grad_fn: Callable) -> Any:
    params, state = START, jax.jit(optimizer.init)(START)

    @jax.jit
    def update(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(incoming(params), state, params, grad_fn=grad_fn)
        return optax.apply_updates(params, updates), state

    for _ in range(8):
        params, state = update(params, state)
    return ux.eval_params(state, params)


@each_plain_method
def test_each_block_of_a_partition_equals_a_run_of_its_own(method: Method) -> None:
    """Read one after the other, since several at once are an error; the frozen block stays."""
    sets = {"a": ux.Box(-0.3, 0.4), "b": BALL}
    methods = {label: method.make(sets[label]) for label in sets}
    optimizer = optax.partition(
        methods | {"sgd": optax.sgd(0.1), "frozen": optax.set_to_zero()},
        {"a": "a", "b": ("b",), "free": "sgd", "kept": "frozen"},
    )
    params = START | {"free": jnp.ones(2), "kept": jnp.full(3, 7.0)}

    def loss_gradient(params: dict) -> dict:
        own = gradient({label: params[label] for label in sets})
        return own | {"free": 2 * params["free"], "kept": params["kept"]}

    last, state = run(optimizer, params, loss_gradient, 8)
    with pytest.raises(ValueError, match=r"PartitionState holds 2: .* inner_states\[label\]"):
        ux.eval_params(state, last)
    read = last
    for label in methods:
        read = ux.eval_params(state.inner_states[label], read)
    for label, own in methods.items():
        own_start = jax.tree.leaves(START[label])[0]
        own_target = jax.tree.leaves(TARGET[label])[0]
        alone, alone_state = run(own, own_start, lambda x, to=own_target: x - to, 8)
        np.testing.assert_allclose(jax.tree.leaves(last[label])[0], alone, atol=1e-6)
        expected = ux.eval_params(alone_state, alone)
        np.testing.assert_allclose(jax.tree.leaves(read[label])[0], expected, atol=1e-6)
    np.testing.assert_allclose(last["free"], jnp.full(2, 0.8**8), rtol=1e-6)
    np.testing.assert_array_equal(last["kept"], params["kept"])
    np.testing.assert_array_equal(read["free"], last["free"])


@each_plain_method
def test_masked_leaves_are_read_from_params(method: Method) -> None:
    optimizer = optax.masked(method.make(BALL), {"a": False, "b": True})
    params, state = run(optimizer, START, gradient, 3)
    read = ux.eval_params(state, params)
    np.testing.assert_array_equal(read["a"], params["a"])
    assert float(BALL.violation(read["b"])) <= 1e-6
    assert not np.allclose(read["b"][0], START["b"][0])


@each_plain_method
@pytest.mark.parametrize("parts", by_default([2], [2, 3]))
def test_accumulated_small_batches_equal_big_ones_in_both_halves(
    method: Method, parts: int
) -> None:
    A, _, b = (jnp.asarray(array, jnp.float32) for array in problems.regression_data(30, 9))
    rows, targets = A.reshape(parts, -1, 9), b.reshape(parts, -1)
    optimizer = method.make(ux.L2Ball(2.0))
    multi = optax.MultiSteps(optimizer, parts)

    @jax.jit
    def small(params: Any, state: Any, rows: Any, targets: Any) -> Any:
        incoming = jax.grad(problems.least_squares)(params, rows, targets)
        updates, state = multi.update(incoming, state, params)
        return optax.apply_updates(params, updates), state

    params = jnp.linspace(0.1, 0.4, 9)
    state = jax.jit(multi.init)(params)
    for _ in range(3 * method.period + 1):
        for part in range(parts):
            params, state = small(params, state, rows[part], targets[part])
    whole = jax.grad(problems.least_squares)
    expected, whole_state = run(
        optimizer, jnp.linspace(0.1, 0.4, 9), lambda x: whole(x, A, b), 3 * method.period + 1
    )
    np.testing.assert_allclose(params, expected, atol=1e-5)
    np.testing.assert_allclose(
        ux.eval_params(state, params), ux.eval_params(whole_state, expected), atol=1e-5
    )


@each_plain_method
def test_steps_that_are_not_finite_can_be_skipped(method: Method) -> None:
    optimizer = method.make(ux.Simplex())
    skipping = optax.apply_if_finite(optimizer, 5)
    params, state = jnp.array([0.5, 0.5]), skipping.init(jnp.array([0.5, 0.5]))
    update = jax.jit(skipping.update)
    incoming = [jnp.array([1.0, 0.0]), jnp.array([jnp.nan, 0.0]), jnp.array([0.5, 0.0])]
    for each in incoming:
        updates, state = update(each, state, params)
        params = optax.apply_updates(params, updates)
    expected, plain_state = jnp.array([0.5, 0.5]), optimizer.init(jnp.array([0.5, 0.5]))
    for each in (incoming[0], incoming[2]):
        updates, plain_state = jax.jit(optimizer.update)(each, plain_state, expected)
        expected = optax.apply_updates(expected, updates)
    np.testing.assert_allclose(params, expected, atol=1e-6)
    np.testing.assert_allclose(
        ux.eval_params(state, params), ux.eval_params(plain_state, expected), atol=1e-6
    )


@each_method
def test_injected_hyperparameters_equal_given_ones(method: Method) -> None:
    injected = optax.inject_hyperparams(method.make)(BALL, **method.hyperparameters)
    plain = method.make(BALL, **method.hyperparameters)
    got = answer(injected, START, gradient, 8)
    assert_close(got, answer(plain, START, gradient, 8))
    default = answer(method.make(BALL), START, gradient, 8)
    assert any(
        not np.allclose(a, b, atol=1e-3)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(default), strict=True)
    )


@each_method
def test_injected_schedules_and_values_set_by_hand_act_from_then_on(method: Method) -> None:
    """At each update, hyperparameters are what the schedule says, or what was last written."""
    name, value = next(iter(method.hyperparameters.items()))
    scheduled = optax.inject_hyperparams(method.make)(BALL, **{name: lambda t: value * (t + 1)})
    by_hand = optax.inject_hyperparams(method.make)(BALL, **{name: value})
    got, got_state = START, jax.jit(scheduled.init)(START)
    expected, state = START, jax.jit(by_hand.init)(START)
    for t in range(2 * method.period):
        got, got_state = run(scheduled, got, gradient, 1, got_state)
        state.hyperparams[name] = jnp.asarray(value * (t + 1), jnp.float32)
        expected, state = run(by_hand, expected, gradient, 1, state)
        np.testing.assert_allclose(got_state.hyperparams[name], value * (t + 1), rtol=1e-6)
        assert_close(got, expected, 1e-6)
    assert_close(ux.eval_params(got_state, got), ux.eval_params(state, expected), 1e-6)


def test_the_set_itself_can_be_injected() -> None:
    """A radius that a schedule grows: the iterates are in the set of their own update."""
    make = optax.inject_hyperparams(lambda radius: ux.unixgrad(ux.L1Ball(radius)))
    optimizer = make(radius=optax.linear_schedule(0.1, 1.0, 10))
    params, state = jnp.zeros(4), jax.jit(optimizer.init)(jnp.zeros(4))
    towards_five = lambda x: x - 5.0  # noqa: E731
    for t in range(12):
        params, state = run(optimizer, params, towards_five, 1, state)
        assert float(jnp.abs(params).sum()) <= min(1.0, 0.1 + 0.09 * t) + 1e-6


def test_private_gradients_are_noisy_gradients() -> None:
    private = optax.contrib.differentially_private_aggregate(1.0, 0.5, key=jax.random.key(0))
    optimizer = optax.chain(private, ux.unixgrad(BALL))
    targets = jax.random.normal(jax.random.key(1), (64, 3)) / 10 + jnp.array([[2.0, 0.0, 0.0]])

    def each_gradient(x: jax.Array) -> jax.Array:
        return x[None] - targets

    def update(carry: Any, _: None) -> Any:
        params, state = carry
        updates, state = optimizer.update(each_gradient(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    start = (jnp.zeros(3), optimizer.init(jnp.zeros(3)))
    params, state = jax.lax.scan(update, start, length=2_000)[0]
    read = ux.eval_params(state, params)
    assert float(BALL.violation(read)) <= 1e-6
    np.testing.assert_allclose(read, [1.0, 0.0, 0.0], atol=0.05)


@each_plain_method
def test_a_transform_after_ours_moves_params_off_the_point_but_not_the_state(
    method: Method,
) -> None:
    """Why ours goes last: halved updates end halfway, where the next gradient is then taken."""
    optimizer = method.make(ux.L1Ball(0.5))
    params = jnp.array([0.5, 0.0])
    incoming = jnp.array([0.0, 50.0])
    chained = optax.chain(optimizer, optax.scale(0.5))
    plain, plain_state = step(optimizer, params, optimizer.init(params), lambda _: incoming)
    moved, state = step(chained, params, chained.init(params), lambda _: incoming)
    np.testing.assert_allclose(moved, (params + plain) / 2, atol=1e-6)
    assert_close(ux.eval_params(state, moved), ux.eval_params(plain_state, plain), 1e-6)
    decayed = optax.chain(optax.add_decayed_weights(0.1), optimizer)  # in the objective, before
    assert_close(
        step(decayed, params, decayed.init(params), lambda _: incoming)[0],
        step(optimizer, params, optimizer.init(params), lambda p: incoming + 0.1 * p)[0],
    )


def test_answers_behind_flattened_parts_are_read_with_masks_in_the_place_of_the_rest() -> None:
    params = {"flat": jnp.ones((2, 2)), "free": jnp.ones(3)}
    optimizer = optax.partition(
        {"ours": optax.flatten(ux.unixgrad(BALL)), "theirs": optax.sgd(0.1)},
        {"flat": "ours", "free": "theirs"},
    )
    state = optimizer.init(params)
    with pytest.raises(ValueError, match=r"MaskedNode.* in the place of the hidden"):
        ux.eval_params(state, params)
    read = ux.eval_params(state, params | {"free": optax.MaskedNode()})
    np.testing.assert_allclose(read["flat"], jnp.full((2, 2), 0.5))


def test_an_answer_shares_no_memory_with_the_state() -> None:
    params = jnp.array([0.5, 0.25])
    state = ux.unixgrad(BALL).init(params)
    read = ux.eval_params(state, params)
    jax.jit(lambda state: state, donate_argnums=0)(state)
    np.testing.assert_array_equal(read, params)


@pytest.mark.parametrize(
    ("state", "params", "message"),
    [
        (optax.adam(0.1).init(jnp.ones(2)), jnp.ones(2), "but a tuple holds none"),
        ([ux.unixgrad(BALL).init(jnp.ones(2))] * 2, jnp.ones(2), "but a list holds 2"),
        (ux.unixgrad(BALL).init(jnp.ones(2)), jnp.ones(3), r"shapes \[\(2,\)\].*\[\(3,\)\]"),
        (ux.unixgrad(BALL).init(jnp.ones(2)), {"a": jnp.ones(2), "b": 0.0}, "must be those of"),
        (ux.unixgrad(BALL).init(jnp.ones((2, 3))), jnp.ones((3, 2)), "must be those of"),
    ],
)
def test_answers_that_are_not_there_are_named(state: Any, params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ux.eval_params(state, params)


def test_complex_params_are_pairs_of_real_ones() -> None:
    target = jnp.array([3.0 + 4.0j, 0.0j])
    optimizer = optax.contrib.split_real_and_imaginary(ux.unixgrad(BALL))
    read = answer(optimizer, jnp.zeros(2, jnp.complex64), lambda z: z - target, 300)
    np.testing.assert_allclose(read, [0.6 + 0.8j, 0.0], atol=1e-3)
    flat = optax.contrib.split_real_and_imaginary(optax.flatten(ux.unixgrad(BALL)))
    np.testing.assert_allclose(
        answer(flat, jnp.zeros(2, jnp.complex64), lambda z: z - target, 300), read, rtol=1e-6
    )
