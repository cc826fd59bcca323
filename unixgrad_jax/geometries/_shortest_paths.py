"""Optimal transport plans by successive shortest paths."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from unixgrad_jax._types import Array


class _Flow(NamedTuple):
    plan: Array
    supply: Array
    demand: Array
    row_prices: Array
    column_prices: Array
    paths: Array | int
    blocked: Array | bool


def optimal_plan(cost: Array, rows: Array, columns: Array) -> Array:
    """Return a plan of least ΣCᵢⱼ·Pᵢⱼ for C ≥ 0 among those with these marginals.

    Successive shortest paths: mass moves from the row with the largest share left to a column with
    room, along a shortest path of the residual graph (Ahuja, Magnanti & Orlin, "Network Flows",
    1993, section 9.7). NaN if mass is left after 20·(m + n) paths, or has no path of finite cost.
    """
    (m, n), eps = cost.shape, jnp.finfo(cost.dtype).eps
    top = jnp.max(jnp.where(jnp.isfinite(cost), cost, 0))
    cost = cost / jnp.where(top > 0, top, 1)
    row_dust, column_dust = 4 * eps * rows, 4 * eps * columns  # what differences of masses leave

    def unfinished(at: _Flow) -> Array:
        left = jnp.any(at.supply > row_dust) & jnp.any(at.demand > column_dust)
        return left & ~at.blocked & (at.paths < 20 * (m + n))

    def augment(at: _Flow) -> _Flow:
        source = jnp.argmax(at.supply / rows)
        lengths = jnp.maximum(cost - at.row_prices[:, None] - at.column_prices[None, :], 0)
        movable = jnp.where(
            at.plan > jnp.minimum(row_dust[:, None], column_dust[None, :]), at.plan, 0
        )
        path = _shortest_path(lengths, movable, source, at.demand > column_dust)
        sink, blocked = path.column, ~jnp.isfinite(path.reach)
        arriving = jnp.minimum(path.capacity[path.via_row[sink]], at.supply[source])
        amount = jnp.where(blocked, 0, jnp.minimum(arriving, at.demand[sink]))

        def walk_back(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            plan, column, _ = carry
            row = path.via_row[column]
            before, at_source = path.via_column[row], row == source
            plan = plan.at[row, column].add(amount)
            plan = plan.at[row, before].add(jnp.where(at_source, 0, -amount))
            return plan, before, at_source

        plan, _, _ = lax.while_loop(lambda carry: ~carry[2], walk_back, (at.plan, sink, blocked))
        return _Flow(
            plan=plan,
            supply=at.supply.at[source].add(-amount),
            demand=at.demand.at[sink].add(-amount),
            row_prices=at.row_prices + jnp.maximum(path.reach - path.to_rows, 0),
            column_prices=at.column_prices - jnp.maximum(path.reach - path.to_columns, 0),
            paths=at.paths + 1,
            blocked=blocked,
        )

    zeros = jnp.zeros_like(rows), jnp.zeros_like(columns)
    start = _Flow(jnp.zeros_like(cost), rows, columns, *zeros, paths=0, blocked=False)
    end = lax.while_loop(unfinished, augment, start)
    left = jnp.minimum(jnp.sum(end.supply), jnp.sum(end.demand))
    complete = (left <= 8 * eps * (m + n) * jnp.sum(rows)) & ~jnp.any(jnp.isnan(cost))
    return jnp.where(complete, end.plan, jnp.nan)


class _Dijkstra(NamedTuple):
    """Dijkstra's algorithm under way.

    Attributes:
        column: the column visited last.
        reach: its distance from the source, ∞ if there is no column to visit.
        found: whether the search is over.
        to_rows: the distance of each row, ∞ before it is reached.
        to_columns: the distance of each column, ∞ before it is visited.
        tentative: the distance of each column along the rows reached.
        via_row: the row before each column.
        via_column: the column before each row.
        capacity: how much mass can move along the path to each row.
    """

    column: Array
    reach: Array
    found: Array | bool
    to_rows: Array
    to_columns: Array
    tentative: Array
    via_row: Array
    via_column: Array
    capacity: Array


def _shortest_path(lengths: Array, movable: Array, source: Array, room: Array) -> _Dijkstra:
    """Return the search from one row that ends at the nearest column with room.

    An edge from a row to a column has the length given; one back, along mass that can be moved
    away, has length 0, so that a visit to a column reaches all its rows.
    """
    m, n = lengths.shape

    def visit(at: _Dijkstra) -> _Dijkstra:
        waiting = jnp.where(jnp.isfinite(at.to_columns), jnp.inf, at.tentative)
        reach = jnp.min(waiting)
        column = jnp.argmax(jnp.where(waiting == reach, 1 + room, 0))
        found = room[column] | ~jnp.isfinite(reach)
        reached = (movable[:, column] > 0) & jnp.isinf(at.to_rows) & ~found
        onward = jnp.where(reached[:, None], reach + lengths, jnp.inf)
        shortest = jnp.min(onward, axis=0)
        arriving = jnp.minimum(at.capacity[at.via_row[column]], movable[:, column])
        return _Dijkstra(
            column=column,
            reach=reach,
            found=found,
            to_rows=jnp.where(reached, reach, at.to_rows),
            to_columns=at.to_columns.at[column].set(jnp.where(found, jnp.inf, reach)),
            tentative=jnp.minimum(at.tentative, shortest),
            via_row=jnp.where(shortest < at.tentative, jnp.argmin(onward, axis=0), at.via_row),
            via_column=jnp.where(reached, column, at.via_column),
            capacity=jnp.where(reached, arriving, at.capacity),
        )

    start = _Dijkstra(
        column=jnp.zeros_like(source),
        reach=jnp.zeros((), lengths.dtype),
        found=False,
        to_rows=jnp.full(m, jnp.inf, lengths.dtype).at[source].set(0),
        to_columns=jnp.full(n, jnp.inf, lengths.dtype),
        tentative=lengths[source],
        via_row=jnp.full(n, source),
        via_column=jnp.zeros(m, source.dtype),
        capacity=jnp.full(m, jnp.inf, lengths.dtype),
    )
    return lax.while_loop(lambda at: ~at.found, visit, start)
