"""AcceleGrad (Levy, Yurtsever and Cevher, 2018), with its second sequence kept in the set."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from unixgrad_jax import _trees, _validation
from unixgrad_jax._template import Average, move_towards
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
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


class AcceleGradState(NamedTuple):
    """What the next iteration needs.

    Attributes:
        step: t, the number of gradients seen, int32.
        anchor: z_t, the point that long steps start from.
        descent: y_t, the point that the last short step reached.
        average: ȳ, the average of y_1, ..., y_t with weights α, the method's answer.
        increment: the last change of `average`, which tells what rounding left out of it.
        sum_squares: Σ_{s<t} α_s²·‖g_s‖², the denominator of the learning rate without G².
    """

    step: Array
    anchor: Mirror
    descent: Params
    average: Params
    increment: Params
    sum_squares: Array

    @property
    def output(self) -> Params:
        """The method's answer, ȳ."""
        return self.average


def accelegrad(
    geometry: Geometry, *, diameter: Scalar | None = None, g0: Scalar = 0.0
) -> optax.GradientTransformationExtraArgs:
    """AcceleGrad: accelerated, adaptive, with one gradient an iteration.

        α_t = max(1, (t+1)/4), τ_t = 1/α_t, from t = 0
        x_{t+1} = τ_t·z_t + (1−τ_t)·y_t             g_t = ∇f(x_{t+1})
        η_t = 2·D₂/sqrt(G0² + Σ_{s≤t} α_s²‖g_s‖²)
        z_{t+1} = P(z_t − α_t·η_t·g_t)              y_{t+1} = P(x_{t+1} − η_t·g_t)

    with D₂ = √2·D, the Euclidean diameter of the set. The answer, read by `eval_params`, is
    Σα_t·y_{t+1}/Σα_t (Levy, Yurtsever and Cevher, "Online adaptive methods, universality and
    acceleration", NeurIPS 2018).

    The published method does not project y, and is analyzed where the minimum of f over ℝⁿ lies in
    the set: with an optimum on the boundary its answer is outside. The projection keeps it inside;
    the published rates are not proven with it.

    Params are x_{t+1}: each update is one iteration. In a chain, put this transform last.

    Args:
        geometry: a set with R = ½‖·‖₂².
        diameter: D ≥ 0, a scalar; by default `geometry.diameter(params)`, which is D₂/√2.
        g0: G0 ≥ 0, in units of a gradient.

    Raises:
        TypeError: if `geometry` is not Euclidean, or params are complex.
        ValueError: if `diameter` or `g0` is out of range; from `update`, if params are missing or
            the gradient does not match them.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 500,
        ...                optimizer=ux.accelegrad(ux.L2Ball(1.0)))
        >>> run.params.round(3)
        Array([0.6, 0.8], dtype=float32)
    """
    check_euclidean("accelegrad", geometry)
    check_diameter(diameter)
    _validation.check_number("g0", g0)

    def init(params: Params) -> AcceleGradState:
        start = starting_point(geometry, params)
        return AcceleGradState(
            step=jnp.zeros((), jnp.int32),
            anchor=copied(start),
            descent=copied(start),
            average=copied(start),
            increment=optax.tree.zeros_like(start),
            sum_squares=jnp.zeros((), _trees.wide_dtype(start)),
        )

    def advance(state: AcceleGradState, gradient: Gradient) -> tuple[AcceleGradState, Params]:
        dtype = state.sum_squares.dtype
        gradient = _trees.cast_like(gradient, state.average)
        alpha, theta = _weights(state.step, dtype)
        squares = state.sum_squares + alpha**2 * _trees.vdot(gradient, gradient)
        offset = _trees.scalar("g0", g0, dtype) ** 2
        eta = ratio(2 * euclidean_diameter(geometry, diameter, state.average), offset + squares)
        query = _between(state.descent, state.anchor, 1 / alpha)
        descent = geometry.step(query, gradient, eta)
        average = move_towards(Average(state.average, state.increment), descent, theta)
        state = AcceleGradState(
            step=after(state.step),
            anchor=geometry.step(state.anchor, gradient, alpha * eta),
            descent=descent,
            average=average.value,
            increment=average.increment,
            sum_squares=squares,
        )
        next_alpha, _ = _weights(state.step, dtype)
        return state, _between(state.descent, state.anchor, 1 / next_alpha)

    return transform(init, advance)


def _weights(step: Array, dtype: DTypeLike) -> tuple[Array, Array]:
    """Return α_t = max(1, (t+1)/4) and α_t/Σ_{s≤t} α_s, for t = step."""
    t = step.astype(dtype)
    # From t = 3 on the sum is 4 + Σ_{s=4}^t (s+1)/4.
    total = jnp.where(t < 3, t + 1, ((t + 1) * (t + 2) + 12) / 8)
    alpha = jnp.maximum(1, (t + 1) / 4)
    return alpha, alpha / total


def _between(start: Params, end: Params, share: Array) -> Params:
    """Return start + τ·(end − start), and the end itself for τ = 1."""

    def point(y: Array, z: Array) -> Array:
        return jnp.where(share == 1, z, y + share.astype(y.dtype) * (z - y))

    return jax.tree.map(point, start, end)
