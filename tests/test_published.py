"""Problems whose answers are published."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unixgrad_jax as ux

pytestmark = pytest.mark.usefixtures("x64")

FIRST_PLANS = ["bet", "check, then fold", "check, then call"]
"""What the first player of Kuhn poker can plan for one card."""

SECOND_PLANS = list(itertools.product(["bet", "check"], ["call", "fold"]))
"""What the second player can plan for one card: after a check, and after a bet."""


def winnings(card: int, plan: str, other_card: int, other: tuple[str, str]) -> int:
    """Return what the first player wins in one deal: an ante of 1 each, one bet of 1."""
    after_check, after_bet = other
    shown = 1 if card > other_card else -1
    if plan == "bet":
        return 2 * shown if after_bet == "call" else 1
    if after_check == "check":
        return shown
    return 2 * shown if plan == "check, then call" else -1


def kuhn_poker() -> np.ndarray:
    """Return the mean winnings of the first player, 27 strategies by 64, over the six deals."""
    deals = list(itertools.permutations(range(3), 2))
    rows = itertools.product(FIRST_PLANS, repeat=3)
    columns = list(itertools.product(SECOND_PLANS, repeat=3))
    return np.array(
        [
            [np.mean([winnings(c, row[c], o, column[o]) for c, o in deals]) for column in columns]
            for row in rows
        ]
    )


def test_kuhn_poker_has_the_value_minus_one_eighteenth() -> None:
    """min over the row player's mixed strategies of the largest loss (Kuhn, 1950)."""
    payoff = jnp.asarray(kuhn_poker())
    assert payoff.shape == (27, 64)

    def loss(p: jax.Array, payoff: jax.Array) -> jax.Array:
        return jnp.max(-p @ payoff)

    start = jnp.full(27, 1 / 27)
    run = ux.solve(loss, ux.EntropicSimplex(), start, 20_000, args=(payoff,))
    np.testing.assert_allclose(-loss(run.params, payoff), -1 / 18, atol=1e-3)


@pytest.mark.parametrize("geometry", [ux.EntropicSimplex(), ux.ShiftedEntropySimplex()])
def test_the_proportions_of_a_binomial_mixture_reach_the_published_likelihood(
    geometry: ux.Geometry,
) -> None:
    """320 tacks thrown nine times each (Beckett and Diaconis, 1994): min −Σ w·log(Lx)."""
    counts = jnp.array([3, 13, 18, 48, 47, 67, 54, 51, 19])
    edges = np.linspace(1e-4, 1 - 1e-4, 300)
    p = (edges[1:] + edges[:-1]) / 2
    likelihood = jnp.asarray([math.comb(9, k) * p**k * (1 - p) ** (9 - k) for k in range(1, 10)])

    def objective(x: jax.Array, weights: jax.Array, likelihood: jax.Array) -> jax.Array:
        return -weights @ jnp.log(likelihood @ x)

    start = jnp.full(p.size, 1 / p.size)
    args = (counts / 320, likelihood)
    run = ux.solve(objective, geometry, start, 20_000, args=args, offset=None)
    np.testing.assert_allclose(objective(run.params, *args), 2.0008615716, atol=1e-5)
