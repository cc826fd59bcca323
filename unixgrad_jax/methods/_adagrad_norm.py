"""AdaGrad with one step size for all coordinates, the scalar AdaGrad of the paper's experiments."""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax import _trees
from unixgrad_jax._template import Average, move_towards
from unixgrad_jax._types import Array, Gradient, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._transform import (
    after,
    check_diameter,
    check_euclidean,
    copied,
    euclidean_diameter,
    ratio,
    starting_point,
    transform,
)


class AdaGradNormState(NamedTuple):
    """What the next iteration needs.

    Attributes:
        step: the number of gradients seen, int32.
        point: x_t, where the next gradient is taken.
        average: the uniform average of x_1, ..., x_t; None where the answer is the last point.
        increment: its last change, which tells what rounding left out of it; None without one.
        sum_squares: Σ‖g_s‖² of all gradients seen.
    """

    step: Array
    point: Params
    average: Params | None
    increment: Params | None
    sum_squares: Array

    @property
    def output(self) -> Params:
        """The method's answer: the average if it is kept, else the last point."""
        return self.point if self.average is None else self.average


def adagrad_norm(
    geometry: Geometry, *, diameter: Scalar | None = None, average: bool = True
) -> optax.GradientTransformationExtraArgs:
    """Projected gradient steps whose size falls with the sum of all squared gradients.

        x_{t+1} = P(x_t − η_t·g_t),        η_t = D₂/sqrt(2·Σ_{s≤t}‖g_s‖²)

    with D₂ = √2·D, the Euclidean diameter of the set. The answer, read by `eval_params`, is the
    uniform average of x_1, x_2, ..., the current params included, or the last point (Levy, "Online
    to offline conversions, universality and adaptive minibatch sizes", NeurIPS 2017; Streeter and
    McMahan, 2010). For any convex f the average has an error of at most √2·D₂·sqrt(Σ‖g_t‖²)/T.

    Params are x_t: each update is one iteration. In a chain, put this transform last.

    Args:
        geometry: a set with R = ½‖·‖₂².
        diameter: D ≥ 0, a scalar; by default `geometry.diameter(params)`, which is D₂/√2.
        average: whether the answer is the average, not the last point; the state without one is
            three times smaller.

    Raises:
        TypeError: if `geometry` is not Euclidean, or params are complex.
        ValueError: if `diameter` is out of range; from `update`, if params are missing or the
            gradient does not match them.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 500,
        ...                optimizer=ux.adagrad_norm(ux.L2Ball(1.0), average=False))
        >>> run.params.round(3)
        Array([0.6, 0.8], dtype=float32)
    """
    check_euclidean("adagrad_norm", geometry)
    check_diameter(diameter)

    def init(params: Params) -> AdaGradNormState:
        start = starting_point(geometry, params)
        return AdaGradNormState(
            step=jnp.zeros((), jnp.int32),
            point=copied(start),
            average=copied(start) if average else None,
            increment=optax.tree.zeros_like(start) if average else None,
            sum_squares=jnp.zeros((), _trees.wide_dtype(start)),
        )

    def advance(state: AdaGradNormState, gradient: Gradient) -> tuple[AdaGradNormState, Params]:
        gradient = _trees.cast_like(gradient, state.point)
        squares = state.sum_squares + _trees.vdot(gradient, gradient)
        eta = ratio(euclidean_diameter(geometry, diameter, state.point), 2 * squares)
        point = geometry.step(state.point, gradient, eta)
        state = state._replace(step=after(state.step), point=point, sum_squares=squares)
        if not average:
            return state, point
        weight = 1 / (state.step.astype(squares.dtype) + 1)
        mean = move_towards(Average(state.average, state.increment), point, weight)
        return state._replace(average=mean.value, increment=mean.increment), point

    return transform(init, advance)
