"""A full solve of a fixed number of iterations in one compiled scan."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax

from unixgrad_jax import _arguments, _loops, _trees, _validation
from unixgrad_jax._eval_params import answer
from unixgrad_jax._loops import StepInfo
from unixgrad_jax._types import Key, Objective, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._unixgrad import check_hyperparameters


class Run(NamedTuple):
    """What `solve` returns.

    Attributes:
        params: the answer, x̄_T, in the structure and dtypes of the start.
        state: the final optimizer state.
        trace: what `trace` returned, stacked along a new leading axis; None without `trace`.
    """

    params: Params
    state: Any
    trace: Any


def solve(
    objective: Objective,
    geometry: Geometry,
    params: Params | None = None,
    num_steps: int = 1000,
    *,
    args: tuple = (),
    sampler: Callable[[Key], Any] | None = None,
    key: Key | None = None,
    diameter: Scalar | None = None,
    offset: Scalar | None = 1.0,
    optimizer: optax.GradientTransformation | None = None,
    trace: Callable[[StepInfo], Any] | None = None,
    trace_every: int = 1,
) -> Run:
    """Minimize a convex objective over a set by exactly `num_steps` iterations of UniXGrad.

    The whole run is one compiled `lax.scan`, differentiable in forward and reverse mode (reverse
    mode stores every iterate), and can be vmapped over starts, `args`, data, radii, `diameter`
    and keys. Calling it again with the same functions and new arrays of the same shapes compiles
    nothing: define `objective`, `trace` and `optimizer` once, and pass what changes in `args`.

    Args:
        objective: `objective(params, *args)`, or `objective(params, batch, *args)` with a sampler;
            returns a scalar. A pytree of callables and arrays (`jax.tree_util.Partial`) is fine.
        geometry: the constraint set and its mirror map.
        params: the start; projected if it is outside the set. None, or a pytree of
            `jax.ShapeDtypeStruct`, starts at `geometry.interior_point`.
        num_steps: T ≥ 1. An iteration takes two gradients. With `optimizer` it counts updates, of
            one gradient each.
        args: further arguments of the objective, pytrees of arrays.
        sampler: `sampler(key)` returns a batch; see `minibatches`. Each gradient sees its own
            fresh batch, two an iteration, as the theory of the noisy case requires.
        key: a PRNG key, for the sampler.
        diameter: D = √(sup D_R) ≥ 0, a scalar, which for R = ½‖·‖₂² is the largest distance
            over √2; by default `geometry.diameter(params)`.
        offset: the constant in the learning rate; None makes the run independent of the scale of
            the objective. See `unixgrad`.
        optimizer: run this optax transform instead; `diameter` and `offset` are then not used.
            The geometry then projects the start, no more: feasibility and penalties are up to the
            optimizer. Its update receives `value`, `grad`, `value_fn` on the batch of its gradient
            and `grad_fn` on a fresh batch.
        trace: maps a `StepInfo` to a pytree of arrays, which is stacked over steps.
        trace_every: call `trace` after every so many steps; `num_steps // trace_every` records.

    Returns:
        `Run(params, state, trace)`.

    Raises:
        TypeError: if a function is not callable, or params are complex.
        ValueError: if an argument is out of range, a sampler comes without a key or a key without
            a sampler, the set is unbounded and no diameter is given, or the start is None and the
            geometry does not know its shape.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> def objective(x, target):
        ...     return jnp.sum((x - target) ** 2)
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(objective, ux.L2Ball(1.0), jnp.zeros(2), num_steps=200, args=(target,))
        >>> run.params.round(3)
        Array([0.6, 0.8], dtype=float32)
    """
    check_hyperparameters(geometry, diameter, offset)
    _validation.check_counts(num_steps=num_steps, trace_every=trace_every)
    _arguments.check_args(args)
    if (sampler is None) != (key is None):
        missing, given = ("key", "sampler") if key is None else ("sampler", "key")
        raise ValueError(f"{given}= was given without {missing}=; stochastic gradients need both.")
    if optimizer is not None and not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(f"optimizer must be an optax transform, not {optimizer!r}.")
    start = _arguments.start(geometry, params)
    if diameter is None and optimizer is None:
        diameter = geometry.diameter(start)
    return _run(
        _arguments.as_pytree("objective", objective),
        geometry,
        start,
        args,
        None if sampler is None else _arguments.as_pytree("sampler", sampler),
        key,
        diameter,
        offset,
        None if trace is None else _arguments.as_pytree("trace", trace),
        num_steps=int(num_steps),
        trace_every=int(trace_every),
        optimizer=optimizer,
    )


@functools.partial(jax.jit, static_argnames=("num_steps", "trace_every", "optimizer"))
def _run(
    objective: Objective,
    geometry: Geometry,
    start: Params,
    args: tuple,
    sampler: Callable[[Key], Any] | None,
    key: Key | None,
    diameter: Scalar | None,
    offset: Scalar | None,
    trace: Callable[[StepInfo], Any] | None,
    *,
    num_steps: int,
    trace_every: int,
    optimizer: optax.GradientTransformation | None,
) -> Run:
    oracle = _loops.Oracle(objective, args, sampler)
    start = geometry.project(start)
    if optimizer is None:
        carry, advance = _loops.unixgrad_loop(oracle, geometry, start, key, diameter, offset)
    else:
        carry, advance = _loops.optimizer_loop(oracle, optimizer, start, key)
    carry, traced = _loops.scan(advance, carry, num_steps, trace, trace_every)
    final = _trees.cast_like(carry.params, start)
    return Run(answer(carry.state, final), carry.state, traced)
