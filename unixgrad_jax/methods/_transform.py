"""What every method's optax transform does around its update."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from unixgrad_jax import _trees, _validation
from unixgrad_jax._types import Array, Gradient, Params, Scalar
from unixgrad_jax.geometries import Geometry, is_euclidean

LearningRate = Scalar | Callable[[Any], Any]
"""A step size, or a schedule: a function of the number of finished steps, as in optax."""


def transform(
    init: Callable[[Params], Any], advance: Callable[[Any, Gradient], tuple[Any, Params]]
) -> optax.GradientTransformationExtraArgs:
    """Return a method as an optax transform: params are always the next point to differentiate at.

    Args:
        init: maps params to the first state.
        advance: maps a state, and the gradient at the last query, to the next state and query.
    """

    def init_fn(params: Params) -> Any:
        return init(params)

    def update_fn(
        updates: Gradient, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Params, Any]:
        del extra_args
        params = check_update(updates, params, state.output)
        state, query = advance(state, updates)
        return displacement(query, params), state

    return optax.GradientTransformationExtraArgs(init_fn, update_fn)


def check_geometry(geometry: Geometry) -> None:
    """Check that the first argument of a method is a geometry.

    Raises:
        TypeError: if it is not.
    """
    if not isinstance(geometry, Geometry):
        raise TypeError(
            f"geometry must be a unixgrad_jax.Geometry such as L2Ball(), not {geometry!r}."
        )


def check_euclidean(method: str, geometry: Geometry, advice: str = "") -> None:
    """Check that a geometry has the mirror map ½‖·‖₂².

    Raises:
        TypeError: if it has not, or is not a geometry.
    """
    check_geometry(geometry)
    if not is_euclidean(geometry):
        raise TypeError(
            f"{method} projects in the Euclidean norm, but {type(geometry).__name__} has another "
            f"mirror map. {advice}".rstrip()
        )


def check_diameter(diameter: Scalar | None) -> None:
    """Check that D, where it is given, is finite and not negative.

    Raises:
        TypeError, ValueError: if it is not.
    """
    if diameter is not None:
        _validation.check_number("diameter", diameter)


def set_diameter(geometry: Geometry, diameter: Scalar | None, like: Params) -> Array:
    """Return D as given, or else that of the set, in the wide dtype of `like`."""
    given = geometry.diameter(like) if diameter is None else diameter
    return _trees.scalar("diameter", given, _trees.wide_dtype(like))


def euclidean_diameter(geometry: Geometry, diameter: Scalar | None, like: Params) -> Array:
    """Return D₂ = √2·D, the largest ‖x − y‖₂ on a set with R = ½‖·‖₂²."""
    return jnp.sqrt(2.0).astype(_trees.wide_dtype(like)) * set_diameter(geometry, diameter, like)


def ratio(numerator: Array, squares: Array) -> Array:
    """Return c/√Σ, 0 where Σ is 0."""
    known = squares > 0
    return jnp.where(known, numerator / jnp.sqrt(jnp.where(known, squares, 1)), 0)


def check_learning_rate(learning_rate: LearningRate) -> None:
    """Check that a learning rate is a schedule, or a finite number that is not negative.

    Raises:
        TypeError, ValueError: if it is neither.
    """
    if not callable(learning_rate):
        _validation.check_number("learning_rate", learning_rate)


def rate_at(learning_rate: LearningRate, step: Array, dtype: DTypeLike) -> Array:
    """Return the learning rate after so many finished steps."""
    value = learning_rate(step) if callable(learning_rate) else learning_rate
    return _trees.scalar("learning_rate", value, dtype)


def check_update(updates: Gradient, params: Params | None, output: Params) -> Params:
    """Return the params of an update, checked against its gradient and the answer in the state.

    Raises:
        TypeError: if a leaf is complex or not numeric.
        ValueError: if there are none, or one of the three has another structure or other shapes.
    """
    if params is None:
        raise ValueError(
            "this optimizer needs the params: call update(gradient, state, params). "
            "They are the point where the gradient was taken."
        )
    _trees.check_same_structure("the gradient", updates, params)
    _trees.check_same_structure("the params of the state", output, params)
    for leaf in jax.tree.leaves((updates, params)):
        _trees.float_dtype(leaf)
    return params


def check_not_masked(params: Params) -> None:
    """Check that no part of the params is hidden by `optax.masked` or `optax.partition`.

    Raises:
        ValueError: if one is: then a gradient at another point cannot be asked for.
    """
    nodes = jax.tree.leaves(params, is_leaf=lambda node: isinstance(node, optax.MaskedNode))
    if any(isinstance(node, optax.MaskedNode) for node in nodes):
        raise ValueError(
            "opaque mode cannot evaluate grad_fn on masked params. Inside optax.masked or "
            "optax.partition use the half-step mode: opaque=False."
        )


def starting_point(geometry: Geometry, params: Params) -> Params:
    """Return the projection of params, leaves in their own dtype but at least in float32."""
    start = _trees.widen(params)
    if jax.tree.leaves(start):  # optax probes optimizers with a tree that has none
        start = geometry.project(start)
    return start


def copied(tree: Params) -> Params:
    """Return a tree whose arrays share no memory with those of another: both can be donated."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), tree)


def after(step: Array) -> Array:
    """Return the next step number, the last one of int32 for ever."""
    return jnp.asarray(optax.safe_increment(step))


def displacement(query: Params, params: Params) -> Params:
    """Return query − params in the dtypes of params: `optax.apply_updates` then reaches query.

    Where the dtype is too narrow for the difference, as far as one update can go.
    """

    def update(q: Array, p: Any) -> Array:
        dtype = _trees.float_dtype(p)
        change, limit = q - jnp.asarray(p, q.dtype), float(jnp.finfo(dtype).max)
        if limit < float(jnp.finfo(q.dtype).max):
            change = _trees.clip(change, -limit, limit)
        return change.astype(dtype)

    return jax.tree.map(update, query, params)
