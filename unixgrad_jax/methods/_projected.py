"""Any optax optimizer, kept in the set by a projection after each update."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import optax

from unixgrad_jax import _trees
from unixgrad_jax._types import Array, Gradient, Params
from unixgrad_jax.geometries import Geometry, has_penalty
from unixgrad_jax.methods._transform import (
    after,
    check_euclidean,
    check_update,
    copied,
    displacement,
    starting_point,
)


class ProjectedState(NamedTuple):
    """What the next update needs.

    Attributes:
        step: the number of gradients seen, int32.
        point: the current point of K, the method's answer, in at least float32.
        inner: the state of the optimizer inside.
    """

    step: Array
    point: Params
    inner: Any

    @property
    def output(self) -> Params:
        """The method's answer, the last point."""
        return self.point


def projected(
    optimizer: optax.GradientTransformation, geometry: Geometry
) -> optax.GradientTransformationExtraArgs:
    """Run any optax optimizer and project after each of its updates.

        x_{t+1} = P(x_t + u_t),        u_t the update of the optimizer for the gradient at x_t

    The answer, read by `eval_params`, is the last point. With `optax.sgd` this is the projected
    gradient method. The optimizer does not know of the set: what it remembers (momentum, say) may
    point out of it. With a scaling of its own for each coordinate, as Adam has, it may stop at a
    point that is no optimum, since the projection is Euclidean; `amsgrad` projects in the norm of
    its scaling.

    Params are x_t: each update is one iteration. In a chain, put this transform last. The point is
    kept in at least float32, so that small updates of float16 or bfloat16 params add up.

    Args:
        optimizer: what makes the updates; its `update` receives params and all extra arguments.
        geometry: the constraint set, with the Euclidean mirror map.

    Raises:
        TypeError: if `geometry` is not a Euclidean `Geometry`, whose `project` returns the nearest
            point, `optimizer` not an optax transform, or params are complex.
        ValueError: if the geometry has a penalty, which no projection minimizes; from `update`, if
            params are missing or the gradient does not match them.

    Example:
        >>> import jax.numpy as jnp, optax, unixgrad_jax as ux
        >>> target = jnp.array([3.0, 4.0])
        >>> run = ux.solve(lambda x: jnp.sum((x - target) ** 2), ux.L2Ball(1.0), jnp.zeros(2), 100,
        ...                optimizer=ux.projected(optax.sgd(0.1), ux.L2Ball(1.0)))
        >>> run.params.round(3)
        Array([0.6, 0.8], dtype=float32)
    """
    if not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(
            f"optimizer must be an optax transform such as optax.sgd(0.1), not {optimizer!r}."
        )
    check_euclidean("projected", geometry, "Give the same set with ½‖·‖₂², such as Simplex.")
    if has_penalty(geometry):
        raise ValueError(
            "projected cannot minimize the penalty of a Penalized geometry: project onto its set, "
            "and add the penalty to the objective, or take a method that treats it, like unixgrad."
        )
    optimizer = optax.with_extra_args_support(optimizer)

    def init_fn(params: Params) -> Any:
        start = starting_point(geometry, params)
        inner = optimizer.init(_trees.cast_like(start, params))
        return ProjectedState(jnp.zeros((), jnp.int32), copied(start), inner)

    def update_fn(
        updates: Gradient, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Params, Any]:
        params = check_update(updates, params, state.point)
        here = _trees.cast_like(state.point, params)
        steps, inner = optimizer.update(updates, state.inner, here, **extra_args)
        moved = optax.tree.add(state.point, _trees.cast_like(steps, state.point))
        point = _trees.cast_like(geometry.project(moved), state.point)
        state = ProjectedState(after(state.step), point, inner)
        return displacement(point, params), state

    return optax.GradientTransformationExtraArgs(init_fn, update_fn)
