"""Geometries as data: frozen, passed through JAX transformations, their methods compiled."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax

from unixgrad_jax._types import Params
from unixgrad_jax.geometries._base import Geometry

COMPILED = (
    "to_mirror",
    "step",
    "to_point",
    "squared_dual_norm",
    "squared_norm",
    "minimize_linear",
    "project",
    "violation",
    "penalty",
)
"""The methods that `register` compiles; the others check concrete values."""

GeometryClass = TypeVar("GeometryClass", bound=type[Geometry])
AnyClass = TypeVar("AnyClass", bound=type)


@dataclass_transform(frozen_default=True)
def register(cls: GeometryClass) -> GeometryClass:
    """Make a geometry class frozen data, as `frozen_data`, with compiled methods.

    Compiled methods cost one dispatch where they are called outside `jax.jit`, and leave no trace
    inside: they are inlined.
    """
    cls = frozen_data(cls)
    for name in COMPILED:
        compiled = jax.jit(getattr(cls, name), inline=True)
        has_check = cls.check is not Geometry.check
        setattr(cls, name, _checked(compiled, name) if has_check else compiled)
    return cls


def _checked(method: Callable, name: str) -> Callable:
    """Return the method of a geometry, called after `check` with its first argument."""

    @functools.wraps(method)
    def checked(self: Geometry, like: Params, *args: Any, **kwargs: Any) -> Any:
        self.check(like, oracle=name == "minimize_linear")
        return method(self, like, *args, **kwargs)

    return checked


@dataclass_transform(frozen_default=True)
def frozen_data(cls: AnyClass) -> AnyClass:
    """Make a class a frozen dataclass and a pytree, its fields the leaves.

    Fields declared with `metadata={"static": True}` become part of the tree structure. Rebuilding
    the object from its leaves skips `__post_init__`: leaves may be tracers, cotangents or axis
    numbers there, which no check of a radius should see. A class may write its own `__init__`,
    where an argument has the name of a method of the protocol.
    """
    own_init = "__init__" in vars(cls)
    cls = dataclasses.dataclass(frozen=True, eq=False, init=not own_init)(cls)
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    data = [field.name for field in fields if not field.metadata.get("static", False)]
    static = [field.name for field in fields if field.metadata.get("static", False)]

    def flatten_with_keys(geometry: Any) -> tuple[list, tuple]:
        keyed = [(jax.tree_util.GetAttrKey(name), getattr(geometry, name)) for name in data]
        return keyed, tuple(getattr(geometry, name) for name in static)

    def unflatten(values: tuple, leaves: Any) -> Any:
        geometry = object.__new__(cls)
        for name, value in zip((*data, *static), (*leaves, *values), strict=True):
            object.__setattr__(geometry, name, value)
        return geometry

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten)
    return cls
