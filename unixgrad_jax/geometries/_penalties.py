"""Simple penalties h that a set can carry, for composite problems min f(x) + h(x)."""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Params, Scalar
from unixgrad_jax.geometries._balls import L2Ball, largest_to_one
from unixgrad_jax.geometries._base import Euclidean, Geometry, gradient_step
from unixgrad_jax.geometries._box import Box
from unixgrad_jax.geometries._custom import Unconstrained
from unixgrad_jax.geometries._groups import Axis, check_axis, direction, group_norms, norms_beyond
from unixgrad_jax.geometries._l1_ball import l1_norm
from unixgrad_jax.geometries._matrix import (
    like_matrix,
    map_singular_values,
    matrix_of,
    singular_values,
)
from unixgrad_jax.geometries._register import frozen_data


class Penalty(abc.ABC):
    """A convex h whose prox step has a closed form on some sets: frozen data, like a geometry.

    To write your own, subclass, name the `sets`, implement every abstract method and decorate with
    `unixgrad_jax.geometries.frozen_data`.
    """

    sets: ClassVar[tuple[type[Geometry], ...]]
    """The classes of the sets with a closed form."""

    @abc.abstractmethod
    def value(self, point: Params) -> Array:
        """Return h(x), a scalar."""

    @abc.abstractmethod
    def step(
        self, geometry: Geometry, anchor: Params, gradient: Gradient, step_size: Scalar
    ) -> Params:
        """Return argmin_{x∈K} s·(⟨g, x⟩ + h(x)) + ½‖x − y‖²."""

    @abc.abstractmethod
    def minimize_linear(self, geometry: Geometry, gradient: Gradient) -> Params:
        """Return a point of argmin_{v∈K} ⟨g, v⟩ + h(v).

        Raises:
            ValueError: if there is no minimum.
        """

    def check_oracle(self, geometry: Geometry) -> None:
        """Check that ⟨g, v⟩ + h(v) has a minimum on K for every g, as far as values are known.

        Raises:
            ValueError: if it has none.
        """
        del geometry


@frozen_data
class ElasticNet(Penalty):
    """The elastic net h(x) = l1·‖x‖₁ + ½·l2·‖x‖₂², on a `Box`, an `L2Ball` around 0 or ℝⁿ.

    Attributes:
        l1: the weight of ‖x‖₁, ≥ 0, a scalar.
        l2: the weight of ½‖x‖₂², ≥ 0, a scalar.
    """

    sets: ClassVar = (Box, L2Ball, Unconstrained)

    l1: Scalar = 1.0
    l2: Scalar = 1.0

    def __post_init__(self) -> None:
        _validation.check_number("l1", self.l1)
        _validation.check_number("l2", self.l2)

    def value(self, point: Params) -> Array:
        wide = _trees.unify(point)
        l1, l2 = self._weights(wide)
        return l1 * l1_norm(wide) + l2 / 2 * _trees.vdot(wide, wide)

    def step(
        self, geometry: Geometry, anchor: Params, gradient: Gradient, step_size: Scalar
    ) -> Params:
        l1, l2 = self._weights(_trees.unify(anchor))
        size = _trees.scalar("step_size", step_size, l1.dtype)
        shrunk = _soft_step(anchor, gradient, size, l1)
        return geometry.project(jax.tree.map(lambda x: x / (1 + size * l2), shrunk))

    def minimize_linear(self, geometry: Geometry, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        l1, l2 = self._weights(wide)
        descent = jax.tree.map(lambda g: -_soft(g, l1), wide)
        if isinstance(geometry, Box):
            return jax.tree.map(
                lambda d, vertex, inner: jnp.where((l2 > 0) | (d == 0), inner, vertex),
                descent,
                geometry.minimize_linear(jax.tree.map(jnp.negative, descent)),
                geometry.project(jax.tree.map(lambda d: d / jnp.where(l2 > 0, l2, 1), descent)),
            )
        return _along(descent, _radius(geometry, l1), l2)

    def check_oracle(self, geometry: Geometry) -> None:
        strength = _validation.concrete(self.l2)
        if isinstance(geometry, Unconstrained) and strength is not None and not strength.all():
            raise _no_minimum("ElasticNet with l2=0")

    def _weights(self, like: Params) -> tuple[Array, Array]:
        dtype = _trees.wide_dtype(like)
        return _trees.scalar("l1", self.l1, dtype), _trees.scalar("l2", self.l2, dtype)


@frozen_data
class L1Norm(Penalty):
    """The lasso's h(x) = weight·‖x‖₁, on a `Box`, an `L2Ball` around 0 or ℝⁿ.

    Attributes:
        weight: ≥ 0, a scalar.
    """

    sets: ClassVar = ElasticNet.sets

    weight: Scalar = 1.0

    def __post_init__(self) -> None:
        _validation.check_number("weight", self.weight)

    def value(self, point: Params) -> Array:
        return self._net().value(point)

    def step(
        self, geometry: Geometry, anchor: Params, gradient: Gradient, step_size: Scalar
    ) -> Params:
        return self._net().step(geometry, anchor, gradient, step_size)

    def minimize_linear(self, geometry: Geometry, gradient: Gradient) -> Params:
        if isinstance(geometry, Unconstrained):
            raise _no_minimum("L1Norm")
        return self._net().minimize_linear(geometry, gradient)

    def _net(self) -> ElasticNet:
        return ElasticNet(self.weight, 0.0)


@frozen_data
class SquaredL2Norm(Penalty):
    """The ridge h(x) = ½·weight·‖x‖₂², on every Euclidean set.

    Attributes:
        weight: > 0, a scalar.
    """

    sets: ClassVar = (Euclidean,)

    weight: Scalar = 1.0

    def __post_init__(self) -> None:
        _validation.check_number("weight", self.weight, positive=True)

    def value(self, point: Params) -> Array:
        wide = _trees.unify(point)
        return self._weight(wide) / 2 * _trees.vdot(wide, wide)

    def step(
        self, geometry: Geometry, anchor: Params, gradient: Gradient, step_size: Scalar
    ) -> Params:
        wide = _trees.unify(anchor)
        size = _trees.scalar("step_size", step_size, _trees.wide_dtype(wide))
        shrink = 1 / (1 + size * self._weight(wide))
        return geometry.step(jax.tree.map(lambda y: shrink * y, wide), gradient, shrink * size)

    def minimize_linear(self, geometry: Geometry, gradient: Gradient) -> Params:
        wide = _trees.unify(gradient)
        weight = self._weight(wide)
        return geometry.project(jax.tree.map(lambda g: -g / weight, wide))

    def _weight(self, like: Params) -> Array:
        return _trees.scalar("weight", self.weight, _trees.wide_dtype(like))


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
            raise _no_minimum("GroupNorm")
        wide = _trees.unify(gradient)
        weight = self._weight(wide)
        descent = jax.tree.map(
            lambda g, norm: -_trees.at_least(norm - weight, 0) * direction(g, self.axis),
            wide,
            group_norms(wide, self.axis),
        )
        return _along(descent, _radius(geometry, weight), jnp.zeros_like(weight))

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
            raise _no_minimum("NuclearNorm")
        weight = self._weight(gradient)
        descent = self._shrink(jax.tree.map(jnp.negative, _trees.unify(gradient)), weight)
        return _along(descent, _radius(geometry, weight), jnp.zeros_like(weight))

    def _shrink(self, point: Params, amount: Array) -> Params:
        matrix = map_singular_values(_soft, matrix_of(point, "NuclearNorm"), amount)
        return like_matrix(matrix, point)

    def _weight(self, like: Params) -> Array:
        return _trees.scalar("weight", self.weight, _trees.wide_dtype(like))


def _soft(value: Array, amount: Array) -> Array:
    """Return sign(v)·max(|v| − a, 0)."""
    return jnp.sign(value) * _trees.at_least(jnp.abs(value) - amount, 0)


def _soft_step(anchor: Params, gradient: Gradient, size: Array, weight: Array) -> Params:
    """Return the soft threshold of y − s·g at s·λ, without forming the long parts."""

    def entry(y: Array, g: Array) -> Array:
        y, g = jnp.asarray(y, size.dtype), jnp.asarray(g, size.dtype)
        sign = jnp.sign(y - size * g)
        return sign * _trees.at_least(sign * y - size * (sign * g + weight), 0)

    return jax.tree.map(entry, anchor, gradient)


def _along(descent: Params, radius: Array, curvature: Array) -> Params:
    """Return argmin over ‖v‖₂ ≤ r of ½·μ·‖v‖² − ⟨d, v⟩: as far along d as r and μ let it."""
    unit, scale = largest_to_one(descent)
    squared = _trees.vdot(unit, unit)
    nonzero = squared > 0
    inverse_norm = 1 / jnp.sqrt(jnp.where(nonzero, squared, 1))
    curved = curvature > 0
    inner = jnp.where(curved, scale / jnp.where(curved, curvature, 1), jnp.inf)
    reach = jnp.where(nonzero, jnp.minimum(radius * inverse_norm, inner), squared)
    return jax.tree.map(lambda u: reach * u, unit)


def _radius(geometry: Geometry, like: Array) -> Array:
    if isinstance(geometry, L2Ball):
        return _trees.scalar("radius", geometry.radius, like.dtype)
    return jnp.full((), jnp.inf, like.dtype)


def _no_minimum(name: str) -> ValueError:
    return ValueError(
        f"{name} on ℝⁿ has no linear minimization oracle: ⟨g, v⟩ + h(v) has no minimum once g is "
        "large. For a certificate, put the penalty on a ball or a box that contains the solution."
    )
