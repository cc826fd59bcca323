"""Optimistic mirror descent (Rakhlin and Sridharan, 2013)."""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax._template import take_half
from unixgrad_jax._types import Array, Gradient, Mirror, Params
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._mirror_prox import GivenRate
from unixgrad_jax.methods._transform import (
    LearningRate,
    after,
    check_geometry,
    check_learning_rate,
    copied,
    starting_point,
    transform,
)


class OptimisticMirrorDescentState(NamedTuple):
    """What the next iteration needs.

    Attributes:
        step: t − 1, the number of gradients seen, int32.
        anchor: mirror coordinates ∇R(y_{t−1}) of the point that both prox steps start from.
        average: x̄, the uniform average of x_1, ..., x_t, the method's answer.
        increment: the last change of `average`, which tells what rounding left out of it.
    """

    step: Array
    anchor: Mirror
    average: Params
    increment: Params

    @property
    def output(self) -> Params:
        """The method's answer, x̄."""
        return self.average


def optimistic_mirror_descent(
    geometry: Geometry, learning_rate: LearningRate
) -> optax.GradientTransformationExtraArgs:
    """Optimistic mirror descent: Mirror-Prox that looks ahead along the last gradient.

        x_t = argmin_{x∈K} ⟨g_{t−1}, x⟩ + D_R(x, y_{t−1})/η          g_t = ∇f(x_t)
        y_t = argmin_{y∈K} ⟨g_t, y⟩ + D_R(y, y_{t−1})/η

    The paper's Algorithm 1 with M_t = g_{t−1}, M_1 = 0 and weights 1: one gradient an iteration.
    The answer, read by `eval_params`, is the uniform average of x_1, x_2, ..., the current params
    included (Rakhlin and Sridharan, "Optimization, learning, and games with predictable sequences",
    NeurIPS 2013). Its error is at most D_R(x*, y_0)/(η·T) + η/(2T)·Σ‖g_t − g_{t−1}‖*².

    Params are x_t: each update is one iteration. In a chain, put this transform last.

    Args:
        geometry: the constraint set and its mirror map.
        learning_rate: η ≥ 0, a scalar, or a schedule of the number of gradients seen; where it
            changes, the two prox steps around g_t have the rates before and after it.

    Raises:
        TypeError: if `geometry` is not a `Geometry`, or params are complex.
        ValueError: if `learning_rate` is negative; from `update`, if params are missing or the
            gradient does not match them.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 2000,
        ...                optimizer=ux.optimistic_mirror_descent(ux.L2Ball(1.0), 0.25))
        >>> run.params.round(1)
        Array([0.6, 0.8], dtype=float32)
    """
    check_geometry(geometry)
    check_learning_rate(learning_rate)

    def init(params: Params) -> OptimisticMirrorDescentState:
        start = starting_point(geometry, params)
        return OptimisticMirrorDescentState(
            step=jnp.zeros((), jnp.int32),
            anchor=copied(geometry.to_mirror(start)),
            average=copied(start),
            increment=optax.tree.zeros_like(start),
        )

    def advance(
        state: OptimisticMirrorDescentState, gradient: Gradient
    ) -> tuple[OptimisticMirrorDescentState, Params]:
        rules = GivenRate[OptimisticMirrorDescentState](learning_rate)
        state, _, _ = take_half(rules, geometry, state, gradient, True)
        state = state._replace(step=after(state.step))
        state, query, _ = take_half(rules, geometry, state, gradient, False)
        return state, query

    return transform(init, advance)
