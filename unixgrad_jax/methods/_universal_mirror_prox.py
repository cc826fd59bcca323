"""Universal Mirror-Prox (Bach and Levy, 2019)."""

from typing import NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax import _trees, _validation
from unixgrad_jax._template import Half, take_turns
from unixgrad_jax._types import Array, Gradient, Mirror, Params, Scalar
from unixgrad_jax.geometries import Geometry
from unixgrad_jax.methods._mirror_prox import Uniform
from unixgrad_jax.methods._transform import (
    check_diameter,
    check_geometry,
    copied,
    set_diameter,
    starting_point,
    transform,
)


class UniversalMirrorProxState(NamedTuple):
    """What the next half of an iteration needs.

    Attributes:
        step: t − 1, the number of finished iterations, int32.
        halfway: whether M_t has been used and g_t is awaited, bool.
        anchor: mirror coordinates ∇R(y_{t−1}) of the point that both prox steps start from.
        average: x̄, the uniform average of x_1, x_2, ..., the method's answer.
        increment: the last change of `average`, which tells what rounding left out of it.
        lead: x_t, against which y_t is measured.
        sum_squares: Σ_{i<t} Z_i², in the denominator of the learning rate.
    """

    step: Array
    halfway: Array
    anchor: Mirror
    average: Params
    increment: Params
    lead: Params
    sum_squares: Array

    @property
    def output(self) -> Params:
        """The method's answer, x̄."""
        return self.average


def universal_mirror_prox(
    geometry: Geometry, *, diameter: Scalar | None = None, g0: Scalar = 1.0
) -> optax.GradientTransformationExtraArgs:
    """Mirror-Prox with a learning rate that adapts to smoothness and noise.

        x_t = argmin_{x∈K} ⟨∇f(y_{t−1}), x⟩ + D_R(x, y_{t−1})/η_t
        y_t = argmin_{y∈K} ⟨∇f(x_t), y⟩ + D_R(y, y_{t−1})/η_t
        η_t = D/sqrt(G0² + Σ_{i<t} Z_i²),    Z_t² = (‖x_t − y_t‖² + ‖x_t − y_{t−1}‖²)/(5η_t²)

    The paper's Algorithm 1 with M_t = ∇f(y_{t−1}), g_t = ∇f(x_t) and weights 1. The answer, read by
    `eval_params`, is the uniform average of x_1, x_2, ... (Bach and Levy, "A universal algorithm
    for variational inequalities adaptive to smoothness and noise", COLT 2019). Its error falls like
    1/T for smooth f and like 1/√T up to logarithms otherwise.

    Params are always the next point to differentiate at: one update moves them from y_{t−1} to x_t,
    the next to y_t. In a chain, put this transform last.

    Args:
        geometry: the constraint set and its mirror map; norms are those of the mirror map.
        diameter: D = √(sup D_R) ≥ 0, a scalar, which for R = ½‖·‖₂² is the largest distance
            over √2; by default `geometry.diameter(params)`.
        g0: G0 > 0, a guess at the size of gradients, in their units.

    Raises:
        TypeError: if `geometry` is not a `Geometry`, or params are complex.
        ValueError: if `diameter` or `g0` is out of range; from `update`, if params are missing or
            the gradient does not match them.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 2000,
        ...                optimizer=ux.universal_mirror_prox(ux.L2Ball(1.0)))
        >>> run.params.round(1)
        Array([0.6, 0.8], dtype=float32)
    """
    check_geometry(geometry)
    check_diameter(diameter)
    _validation.check_number("g0", g0, positive=True)

    def init(params: Params) -> UniversalMirrorProxState:
        start = starting_point(geometry, params)
        return UniversalMirrorProxState(
            step=jnp.zeros((), jnp.int32),
            halfway=jnp.zeros((), jnp.bool_),
            anchor=copied(geometry.to_mirror(start)),
            average=copied(start),
            increment=optax.tree.zeros_like(start),
            lead=copied(start),
            sum_squares=jnp.zeros((), _trees.wide_dtype(start)),
        )

    def advance(
        state: UniversalMirrorProxState, gradient: Gradient
    ) -> tuple[UniversalMirrorProxState, Params]:
        return take_turns(_Rules(diameter, g0), geometry, state, gradient)

    return transform(init, advance)


class _Rules(Uniform[UniversalMirrorProxState]):
    """The learning rate of how far the iterates move."""

    def __init__(self, diameter: Scalar | None, g0: Scalar) -> None:
        self.diameter = diameter
        self.g0 = g0

    def learning_rate(
        self,
        geometry: Geometry,
        state: UniversalMirrorProxState,
        gradient: Gradient,
        second: bool | Array,
    ) -> Array:
        del gradient, second
        dtype = state.sum_squares.dtype
        g0 = _trees.scalar("g0", self.g0, dtype)
        diameter = set_diameter(geometry, self.diameter, state.average)
        return diameter / jnp.sqrt(g0**2 + state.sum_squares)

    def learn(
        self, geometry: Geometry, state: UniversalMirrorProxState, half: Half
    ) -> UniversalMirrorProxState:
        ahead = optax.tree.sub(state.lead, half.point)
        moved = optax.tree.sub(state.lead, geometry.to_point(half.anchor))
        distances = geometry.squared_norm(ahead) + geometry.squared_norm(moved)
        moves = half.learning_rate > 0  # a set of diameter 0 leaves nothing to learn
        growth = distances / jnp.where(moves, 5 * half.learning_rate**2, 1)
        return state._replace(
            lead=optax.tree.where(half.second, state.lead, half.point),
            sum_squares=state.sum_squares + jnp.where(half.second & moves, growth, 0),
        )
