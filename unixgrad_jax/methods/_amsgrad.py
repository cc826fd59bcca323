"""AMSGrad (Reddi, Kale and Kumar, 2018), projected in the norm of its own scaling."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Params, Scalar
from unixgrad_jax.geometries import Geometry, check_weighted_projection, project_weighted
from unixgrad_jax.geometries._base import root
from unixgrad_jax.methods._transform import (
    LearningRate,
    after,
    check_geometry,
    check_learning_rate,
    copied,
    rate_at,
    ratio,
    starting_point,
    transform,
)


class AMSGradState(NamedTuple):
    """What the next update needs.

    Attributes:
        step: the number of gradients seen, int32.
        point: x_t, the method's answer.
        mean: m, the moving average of gradients.
        square: v, the moving average of their squares.
        largest: v̂, the largest v so far, entry by entry.
    """

    step: Array
    point: Params
    mean: Gradient
    square: Gradient
    largest: Gradient

    @property
    def output(self) -> Params:
        """The method's answer, the last point."""
        return self.point


def amsgrad(
    geometry: Geometry, learning_rate: LearningRate, b1: Scalar = 0.9, b2: Scalar = 0.999
) -> optax.GradientTransformationExtraArgs:
    """AMSGrad: a step size for each coordinate, and the projection in the same scaling.

        m_t = β₁·m_{t−1} + (1−β₁)·g_t          v_t = β₂·v_{t−1} + (1−β₂)·g_t²
        v̂_t = max(v̂_{t−1}, v_t)                u_t = x_t − η_t·m_t/√v̂_t
        x_{t+1} = argmin_{x∈K} Σᵢ √v̂_{t,i}·(xᵢ − u_{t,i})²

    As published (Reddi, Kale and Kumar, "On the convergence of Adam and beyond", ICLR 2018,
    algorithm 2): without bias correction, and without a constant beside √v̂; where no gradient has
    been seen yet, the coordinate stays. The theory has η_t = η/√t. The answer, read by
    `eval_params`, is the last point.

    Params are x_t: each update is one iteration. In a chain, put this transform last.

    Args:
        geometry: `Box`, `L2Ball`, `Simplex`, `L1Ball`, `Unconstrained`, or `Product` or `Batched`
            of them. In the projection, weights √v̂ below 10⁻⁶ of the largest count as that.
        learning_rate: η ≥ 0, a scalar, or a schedule of the number of gradients seen; in units of
            params.
        b1: β₁ in [0, 1), a scalar.
        b2: β₂ in [0, 1), a scalar.

    Raises:
        TypeError: if `geometry` is not one of those, or params are complex.
        ValueError: if a number is out of range; from `update`, if params are missing or the
            gradient does not match them.

    Example:
        >>> import jax.numpy as jnp, unixgrad_jax as ux
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 500,
        ...                optimizer=ux.amsgrad(ux.L2Ball(1.0), 0.1))
        >>> run.params.round(3)
        Array([0.6, 0.8], dtype=float32)
    """
    check_geometry(geometry)
    check_weighted_projection(geometry)
    check_learning_rate(learning_rate)
    for name, value in {"b1": b1, "b2": b2}.items():
        _validation.check_share(name, value)

    def init(params: Params) -> AMSGradState:
        start = starting_point(geometry, params)
        return AMSGradState(
            step=jnp.zeros((), jnp.int32),
            point=copied(start),
            mean=optax.tree.zeros_like(start),
            square=optax.tree.zeros_like(start),
            largest=optax.tree.zeros_like(start),
        )

    def advance(state: AMSGradState, gradient: Gradient) -> tuple[AMSGradState, Params]:
        dtype = _trees.wide_dtype(state.point)
        gradient = _trees.cast_like(gradient, state.point)
        first, second = (_trees.scalar(*pair, dtype) for pair in (("b1", b1), ("b2", b2)))
        mean = jax.tree.map(lambda m, g: _mix(first, m, g), state.mean, gradient)
        square = jax.tree.map(lambda v, g: _mix(second, v, g**2), state.square, gradient)
        largest = jax.tree.map(_trees.at_least, square, state.largest)
        scale = jax.tree.map(root, largest)
        eta = rate_at(learning_rate, state.step, dtype)
        moved = jax.tree.map(
            lambda x, m, v: x - eta.astype(x.dtype) * ratio(m, v), state.point, mean, largest
        )
        point = _trees.cast_like(
            project_weighted(geometry, _trees.unify(moved), _trees.unify(scale)), state.point
        )
        step = after(state.step)
        return AMSGradState(step, point, mean, square, largest), point

    return transform(init, advance)


def _mix(share: Array, old: Array, new: Array) -> Array:
    share = share.astype(old.dtype)
    return share * old + (1 - share) * new
