"""Mirror-Prox (Nemirovski, 2004) and its Euclidean form, the extra-gradient method."""

from typing import Generic, NamedTuple

import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from unixgrad_jax import _trees
from unixgrad_jax._template import Half, Rules, State, Weights, take_turns
from unixgrad_jax._types import Array, Gradient, Mirror, Params
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._transform import (
    LearningRate,
    check_euclidean,
    check_geometry,
    check_learning_rate,
    copied,
    rate_at,
    starting_point,
    transform,
)


class MirrorProxState(NamedTuple):
    """What the next half of an iteration needs.

    Attributes:
        step: t − 1, the number of finished iterations, int32.
        halfway: whether M_t has been used and g_t is awaited, bool.
        anchor: mirror coordinates ∇R(y_{t−1}) of the point that both prox steps start from.
        average: x̄, the uniform average of x_1, x_2, ..., the method's answer.
        increment: the last change of `average`, which tells what rounding left out of it.
    """

    step: Array
    halfway: Array
    anchor: Mirror
    average: Params
    increment: Params

    @property
    def output(self) -> Params:
        """The method's answer, x̄."""
        return self.average


def mirror_prox(
    geometry: Geometry, learning_rate: LearningRate
) -> optax.GradientTransformationExtraArgs:
    """Mirror-Prox: look ahead along the gradient, then step along the gradient found there.

        x_t = argmin_{x∈K} ⟨∇f(y_{t−1}), x⟩ + D_R(x, y_{t−1})/η
        y_t = argmin_{y∈K} ⟨∇f(x_t), y⟩ + D_R(y, y_{t−1})/η

    The paper's Algorithm 1 with M_t = ∇f(y_{t−1}), g_t = ∇f(x_t) and weights 1. The answer, read by
    `eval_params`, is the uniform average of x_1, x_2, ... (Nemirovski, "Prox-method with rate of
    convergence O(1/t) ...", SIAM J. Optim. 15, 2004). For an L-smooth f and η ≤ 1/L its error after
    T iterations is at most D_R(x*, y_0)/(η·T).

    Params are always the next point to differentiate at: one update moves them from y_{t−1} to x_t,
    the next to y_t. In a chain, put this transform last.

    Args:
        geometry: the constraint set and its mirror map.
        learning_rate: η ≥ 0, a scalar, or a schedule of the number of finished iterations.

    Raises:
        TypeError: if `geometry` is not a `Geometry`, or params are complex.
        ValueError: if `learning_rate` is negative; from `update`, if params are missing or the
            gradient does not match them.

    Example:
        >>> import jax, jax.numpy as jnp, optax, unixgrad_jax as ux
        >>> cost = jnp.array([3.0, 1.0, 2.0])
        >>> run = ux.solve(lambda x: cost @ x, ux.EntropicSimplex(), jnp.full(3, 1 / 3), 2000,
        ...                optimizer=ux.mirror_prox(ux.EntropicSimplex(), 1.0))
        >>> run.params.round(2)
        Array([0., 1., 0.], dtype=float32)
    """
    check_geometry(geometry)
    check_learning_rate(learning_rate)

    def init(params: Params) -> MirrorProxState:
        start = starting_point(geometry, params)
        return MirrorProxState(
            step=jnp.zeros((), jnp.int32),
            halfway=jnp.zeros((), jnp.bool_),
            anchor=copied(geometry.to_mirror(start)),
            average=copied(start),
            increment=optax.tree.zeros_like(start),
        )

    def advance(state: MirrorProxState, gradient: Gradient) -> tuple[MirrorProxState, Params]:
        return take_turns(GivenRate(learning_rate), geometry, state, gradient)

    return transform(init, advance)


def extragradient(
    geometry: Geometry, learning_rate: LearningRate
) -> optax.GradientTransformationExtraArgs:
    """The extra-gradient method: `mirror_prox` with the Euclidean mirror map.

        x_t = P(y_{t−1} − η·∇f(y_{t−1}))        y_t = P(y_{t−1} − η·∇f(x_t))

    Korpelevich, "The extragradient method for finding saddle points and other problems", Ekonomika
    i Mat. Metody 12, 1976.

    Args:
        geometry: a set with R = ½‖·‖₂².
        learning_rate: η ≥ 0, a scalar, or a schedule of the number of finished iterations.

    Raises:
        TypeError: if `geometry` is not Euclidean; see `mirror_prox` for the others.
    """
    check_euclidean("extragradient", geometry, "mirror_prox takes any mirror map.")
    return mirror_prox(geometry, learning_rate)


class Uniform(Rules[State], Generic[State]):
    """Weights 1, and gradients at the points themselves."""

    def weights(self, step: Array, dtype: DTypeLike) -> Weights:
        """Return α_t = 1, θ_t = 1/t and θ_{t+1}, after t − 1 finished iterations."""
        t = step.astype(dtype) + 1
        return Weights(jnp.ones((), dtype), 1 / t, 1 / (t + 1))

    def query(self, average: Params, point: Params) -> Params:
        del average
        return point


class GivenRate(Uniform[State]):
    """A learning rate that the user gives."""

    def __init__(self, learning_rate: LearningRate) -> None:
        self.value = learning_rate

    def learning_rate(
        self, geometry: Geometry, state: State, gradient: Gradient, second: bool | Array
    ) -> Array:
        del geometry, gradient, second
        return rate_at(self.value, state.step, _trees.wide_dtype(state.average))

    def learn(self, geometry: Geometry, state: State, half: Half) -> State:
        del geometry, half
        return state
