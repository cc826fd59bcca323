"""Penalties that are sums of norms: of groups of entries, and of one matrix's singular values."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Params, Scalar
from unixgrad_jax.geometries._balls import L2Ball
from unixgrad_jax.geometries._base import Geometry, gradient_step
from unixgrad_jax.geometries._custom import Unconstrained
from unixgrad_jax.geometries._groups import Axis, check_axis, direction, group_norms, norms_beyond
from unixgrad_jax.geometries._matrix import (
    like_matrix,
    map_singular_values,
    matrix_of,
    singular_values,
)
from unixgrad_jax.geometries._penalties import Penalty, minimize_quadratic, no_minimum, soft
from unixgrad_jax.geometries._register import frozen_data


@frozen_data
class GroupNorm(Penalty):
    """The group lasso's h(x) = weight·Σ_g ‖x_g‖₂, on an `L2Ball` around 0 or ℝⁿ.

    Attributes:
        weight: ≥ 0, a scalar.
        axis: the axis or axes within a group, as in `GroupBall`; None makes each leaf one group.
    """

    sets: ClassVar = (L2Ball, Unconstrained)

    weight: Scalar = 1.0
    axis: Axis = dataclasses.field(default=-1, metadata={"static": True})

    def __post_init__(self) -> None:
        _validation.check_number("weight", self.weight)
        check_axis(self.axis)

    def value(self, point: Params) -> Array:
        wide = _trees.unify(point)
        weight = self._weight(wide)
        return weight * _trees.total(group_norms(wide, self.axis), weight.dtype)

    def step(
        self, geometry: Geometry, anchor: Params, gradient: Gradient, step_size: Scalar
    ) -> Params:
        moved = gradient_step(anchor, gradient, step_size)
        weight = self._weight(moved)
        size = _trees.scalar("step_size", step_size, weight.dtype)
        wide_anchor, slope = (_trees.as_dtype(tree, weight.dtype) for tree in (anchor, gradient))
        shrunk = jax.tree.map(
            lambda v, beyond: _trees.at_least(beyond, 0) * direction(v, self.axis),
            moved,
            norms_beyond(wide_anchor, slope, size, weight, self.axis),
        )
        return geometry.project(shrunk)

    def minimize_linear(self, geometry: Geometry, gradient: Gradient) -> Params:
        if isinstance(geometry, Unconstrained):
            raise no_minimum("GroupNorm")
        wide = _trees.unify(gradient)
        weight = self._weight(wide)
        descent = jax.tree.map(
            lambda g, norm: -_trees.at_least(norm - weight, 0) * direction(g, self.axis),
            wide,
            group_norms(wide, self.axis),
        )
        return minimize_quadratic(geometry, descent, jnp.zeros_like(weight))

    def _weight(self, like: Params) -> Array:
        return _trees.scalar("weight", self.weight, _trees.wide_dtype(like))


@frozen_data
class NuclearNorm(Penalty):
    """The nuclear norm h(X) = weight·Σσᵢ(X) of one matrix, on an `L2Ball` around 0 or ℝ^{m×n}.

    Attributes:
        weight: ≥ 0, a scalar.
    """

    sets: ClassVar = (L2Ball, Unconstrained)

    weight: Scalar = 1.0

    def __post_init__(self) -> None:
        _validation.check_number("weight", self.weight)

    def value(self, point: Params) -> Array:
        return self._weight(point) * jnp.sum(singular_values(matrix_of(point, "NuclearNorm")))

    def step(
        self, geometry: Geometry, anchor: Params, gradient: Gradient, step_size: Scalar
    ) -> Params:
        moved = gradient_step(anchor, gradient, step_size)
        amount = _trees.scalar("step_size", step_size, _trees.wide_dtype(moved))
        return geometry.project(self._shrink(moved, amount * self._weight(moved)))

    def minimize_linear(self, geometry: Geometry, gradient: Gradient) -> Params:
        if isinstance(geometry, Unconstrained):
            raise no_minimum("NuclearNorm")
        weight = self._weight(gradient)
        descent = self._shrink(jax.tree.map(jnp.negative, _trees.unify(gradient)), weight)
        return minimize_quadratic(geometry, descent, jnp.zeros_like(weight))

    def _shrink(self, point: Params, amount: Array) -> Params:
        matrix = map_singular_values(soft, matrix_of(point, "NuclearNorm"), amount)
        return like_matrix(matrix, point)

    def _weight(self, like: Params) -> Array:
        return _trees.scalar("weight", self.weight, _trees.wide_dtype(like))
