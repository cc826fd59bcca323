"""Penalties h that a set can carry, for composite problems min f(x) + h(x); sums over entries."""

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Params, Scalar
from unixgrad_jax.geometries._balls import L2Ball, largest_to_one
from unixgrad_jax.geometries._base import Euclidean, Geometry
from unixgrad_jax.geometries._box import Box
from unixgrad_jax.geometries._custom import Unconstrained
from unixgrad_jax.geometries._l1_ball import l1_norm
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
        descent = jax.tree.map(lambda g: -soft(g, l1), wide)
        if isinstance(geometry, Box):
            return jax.tree.map(
                lambda d, vertex, inner: jnp.where((l2 > 0) | (d == 0), inner, vertex),
                descent,
                geometry.minimize_linear(jax.tree.map(jnp.negative, descent)),
                geometry.project(jax.tree.map(lambda d: d / jnp.where(l2 > 0, l2, 1), descent)),
            )
        return minimize_quadratic(geometry, descent, l2)

    def check_oracle(self, geometry: Geometry) -> None:
        strength = _validation.concrete(self.l2)
        if isinstance(geometry, Unconstrained) and strength is not None and not strength.all():
            raise no_minimum("ElasticNet with l2=0")

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
            raise no_minimum("L1Norm")
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


def soft(value: Array, amount: Array) -> Array:
    """Return sign(v)·max(|v| − a, 0)."""
    return jnp.sign(value) * _trees.at_least(jnp.abs(value) - amount, 0)


def _soft_step(anchor: Params, gradient: Gradient, size: Array, weight: Array) -> Params:
    """Return the soft threshold of y − s·g at s·λ, without forming the long parts."""

    def entry(y: Array, g: Array) -> Array:
        y, g = jnp.asarray(y, size.dtype), jnp.asarray(g, size.dtype)
        sign = jnp.sign(y - size * g)
        return sign * _trees.at_least(sign * y - size * (sign * g + weight), 0)

    return jax.tree.map(entry, anchor, gradient)


def minimize_quadratic(geometry: Geometry, descent: Params, curvature: Array) -> Params:
    """Return argmin of ½·μ·‖v‖² − ⟨d, v⟩ on an `L2Ball` around 0 or ℝⁿ: as far along d as it may.

    Args:
        geometry: the set.
        descent: d.
        curvature: μ ≥ 0, a scalar.
    """
    dtype = curvature.dtype
    radius = jnp.full((), jnp.inf, dtype)
    if isinstance(geometry, L2Ball):
        radius = _trees.scalar("radius", geometry.radius, dtype)
    unit, scale = largest_to_one(descent)
    squared = _trees.vdot(unit, unit)
    nonzero = squared > 0
    inverse_norm = 1 / jnp.sqrt(jnp.where(nonzero, squared, 1))
    curved = curvature > 0
    inner = jnp.where(curved, scale / jnp.where(curved, curvature, 1), jnp.inf)
    reach = jnp.where(nonzero, jnp.minimum(radius * inverse_norm, inner), squared)
    return jax.tree.map(lambda u: reach * u, unit)


def no_minimum(name: str) -> ValueError:
    return ValueError(
        f"{name} on ℝⁿ has no linear minimization oracle: ⟨g, v⟩ + h(v) has no minimum once g is "
        "large. For a certificate, put the penalty on a ball or a box that contains the solution."
    )
