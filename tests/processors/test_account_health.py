"""The circuits of accounts: when they open, who tries a half-open one, and that processes share them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.terms import CircuitState
from ledger.processors.account_health import FAILURES_MAX, OPEN_S, PROBE_S, AccountHealth

MERCHANT = UUID(int=7)
MX = MERCHANT, "stripe-mx", MethodType.CARD
OPEN, HALF_OPEN, CLOSED = CircuitState.OPEN, CircuitState.HALF_OPEN, CircuitState.CLOSED


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(tmp_path: Path, clock: Clock) -> Iterator[tuple[AccountHealth, AccountHealth]]:
    """Two processes of one service."""
    with closing(AccountHealth(str(tmp_path), clock)) as one, closing(AccountHealth(str(tmp_path), clock)) as two:
        yield one, two


def test_failures_in_a_row_open_a_circuit_for_every_process(pair: tuple[AccountHealth, AccountHealth], clock: Clock):
    one, two = pair
    for _ in range(3):
        for _ in range(FAILURES_MAX - 1):
            assert not one.failed(*MX)
        assert (two.state(*MX), two.admits(*MX)) == (CLOSED, True)
        assert not two.answered(*MX), "an answer in between begins the count anew"
    opened = [(one if n % 2 else two).failed(*MX) for n in range(FAILURES_MAX)]
    assert opened == [False] * (FAILURES_MAX - 1) + [True]
    assert (one.state(*MX), two.state(*MX)) == (OPEN, OPEN)
    assert not one.failed(*MX), "it is open already"
    others = ((MERCHANT, "stripe-mx", MethodType.SPEI), (MERCHANT, "other", MethodType.CARD), (UUID(int=8), *MX[1:]))
    for other in others:
        assert (one.state(*other), one.admits(*other)) == (CLOSED, True)
    clock.now += OPEN_S - 1
    assert not two.admits(*MX)


def test_one_payment_tries_a_half_open_circuit(pair: tuple[AccountHealth, AccountHealth], clock: Clock):
    one, two = pair
    for _ in range(FAILURES_MAX):
        one.failed(*MX)
    clock.now += OPEN_S
    assert two.state(*MX) is HALF_OPEN
    assert [two.admits(*MX), one.admits(*MX), two.admits(*MX)] == [True, False, False]
    assert two.failed(*MX), "the circuit opens again at once"
    assert (one.state(*MX), one.admits(*MX)) == (OPEN, False)
    clock.now += OPEN_S
    assert one.admits(*MX)
    clock.now += PROBE_S
    assert two.admits(*MX), "the payment that tried it never came back"
    assert one.answered(*MX)
    assert (two.state(*MX), two.admits(*MX), two.answered(*MX)) == (CLOSED, True, False)


def test_a_full_table_gives_up_the_circuit_that_was_open_first(clock: Clock):
    with closing(AccountHealth(None, clock, slots=8)) as health:
        for n in range(9):
            clock.now += 1
            for _ in range(FAILURES_MAX):
                health.failed(MERCHANT, f"account-{n}", MethodType.CARD)
        states = [health.state(MERCHANT, f"account-{n}", MethodType.CARD) for n in range(9)]
        assert states == [CLOSED] + [OPEN] * 8
