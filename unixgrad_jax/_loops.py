"""The compiled loops of `solve`: one step of a method, and the scan over steps."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from unixgrad_jax import _trees
from unixgrad_jax._eval_params import answer
from unixgrad_jax._types import Array, Gradient, Key, Objective, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods import _unixgrad as method


class StepInfo(NamedTuple):
    """What `trace` sees of one step.

    Attributes:
        step: the number of finished steps, this one included: t, from 1, int32.
        average: x̄_t, in the dtypes of params.
        last: x_t, in the dtypes of params.
        gradient: g_t, the gradient at x̄_t.
        learning_rate: η_t, a scalar.

    With `optimizer=`, `average` is the optimizer's own answer (`eval_params`) if it has one and
    `last` otherwise, `last` the params after the update, `gradient` the one that went into the
    update, and `learning_rate` NaN.
    """

    step: Array
    average: Params
    last: Params
    gradient: Gradient
    learning_rate: Array


class Oracle(NamedTuple):
    """The objective and its gradient at a point, on the whole data or on a sampled batch."""

    objective: Objective
    args: tuple
    sampler: Callable[[Key], Any] | None

    def on_batch(self, key: Key | None) -> Callable[[Params], Any]:
        """Return the objective as a function of params alone; the key draws its batch.

        It takes and ignores `grad_fn`: a line search of optax hands every extra argument of the
        update on to the objective, and refuses those that it does not name.
        """
        batch = () if self.sampler is None or key is None else (self.sampler(key),)
        return lambda params, grad_fn=None: self.objective(params, *batch, *self.args)


class Carry(NamedTuple):
    """What the scan carries: the next point to differentiate at, the optimizer's state, the key."""

    params: Params
    state: Any
    key: Key | None


Advance = Callable[[Carry], tuple[Carry, Callable[..., StepInfo]]]
"""One step: the new carry, and what there is to see of the step but for its number."""


def _split(key: Key | None) -> tuple[Key | None, Key | None, Key | None]:
    if key is None:
        return None, None, None
    following, first, second = jax.random.split(key, 3)
    return following, first, second


def unixgrad_loop(
    oracle: Oracle,
    geometry: Geometry,
    start: Params,
    key: Key | None,
    diameter: Scalar | None,
    offset: Scalar | None,
) -> tuple[Carry, Advance]:
    """Return the first carry, and one iteration of UniXGrad: two gradients, on fresh batches."""
    state = method.init(geometry, start)

    def advance(carry: Carry) -> tuple[Carry, Callable[..., StepInfo]]:
        following, first, second = _split(carry.key)

        def gradient_at(point: Params, batch_key: Key | None) -> Gradient:
            return jax.grad(oracle.on_batch(batch_key))(_trees.cast_like(point, start))

        hint = gradient_at(carry.params, first)
        iteration = method.iterate(
            geometry,
            carry.state,
            hint,
            lambda point: gradient_at(point, second),
            diameter,
            offset,
        )
        info = functools.partial(
            StepInfo,
            average=_trees.cast_like(iteration.state.average, start),
            last=_trees.cast_like(iteration.last, start),
            gradient=_trees.cast_like(iteration.gradient, start),
            learning_rate=iteration.learning_rate,
        )
        return Carry(iteration.query, iteration.state, following), info

    return Carry(state.average, state, key), advance


def optimizer_loop(
    oracle: Oracle, optimizer: optax.GradientTransformation, start: Params, key: Key | None
) -> tuple[Carry, Advance]:
    """Return the first carry, and one update of any optax transform."""
    extended = optax.with_extra_args_support(optimizer)

    def advance(carry: Carry) -> tuple[Carry, Callable[..., StepInfo]]:
        following, first, second = _split(carry.key)
        value_fn = oracle.on_batch(first)
        value, gradient = jax.value_and_grad(value_fn)(carry.params)
        updates, state = extended.update(
            gradient,
            carry.state,
            carry.params,
            value=value,
            grad=gradient,
            value_fn=value_fn,
            grad_fn=jax.grad(oracle.on_batch(second)),
        )
        params = optax.apply_updates(carry.params, updates)
        info = functools.partial(
            StepInfo,
            average=answer(state, params),
            last=params,
            gradient=gradient,
            learning_rate=jnp.full((), jnp.nan, _trees.wide_dtype(params)),
        )
        return Carry(params, state, following), info

    return Carry(start, extended.init(start), key), advance


def scan(
    advance: Advance,
    carry: Carry,
    num_steps: int,
    trace: Callable[[StepInfo], Any] | None,
    trace_every: int,
) -> tuple[Carry, Any]:
    """Advance `num_steps` times; after every `trace_every` of them keep what `trace` returns."""

    def untraced(carry: Carry, _: None) -> tuple[Carry, None]:
        return advance(carry)[0], None

    def skip(carry: Carry, steps: int) -> Carry:
        # Two steps a turn halve the loop's own bookkeeping, 1 to 2 % of a small problem's step.
        return lax.scan(untraced, carry, length=steps, unroll=2)[0] if steps else carry

    if trace is None:
        return skip(carry, num_steps), None

    def traced(carry: Carry, step: Array) -> tuple[Carry, Any]:
        carry, info = advance(skip(carry, trace_every - 1))
        return carry, trace(info(step=step))

    steps = jnp.arange(trace_every, num_steps + 1, trace_every, dtype=jnp.int32)
    carry, records = lax.scan(traced, carry, steps)
    return skip(carry, num_steps % trace_every), records
