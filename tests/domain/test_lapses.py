"""An authorisation that nobody captures lapses when its processor's time is over (contract 2.1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.asking import authentication_answered, expire
from tests.domain.moves import BY_HAND, CHALLENGE, ONE, card, going_on, granted
from tests.domain.scenario import given
from tests.domain.story import NOON, approved, folded, settle

from ledger.domain.orders import events as e
from ledger.domain.orders.timers import Timer, TimerKind, timers_of

A_DAY = 86_400


@pytest.mark.parametrize(
    ("history", "command"),
    [
        (card(BY_HAND), settle(1, approved(10000, 0))),
        (going_on(BY_HAND, CHALLENGE), authentication_answered(approved(10000, 0))),
    ],
    ids=["at once", "after the payer has acted"],
)
def test_it_lapses_when_the_processor_says(history: tuple[Any, ...], command: Any) -> None:
    events = given(*history).when(replace(command, authorization_s=A_DAY)).then_events()
    order = folded((*history, *events))
    assert timers_of(order) == (Timer(TimerKind.LAPSE, ONE, NOON + timedelta(days=1)),)
    given(*history, *events).when(expire(after=timedelta(seconds=A_DAY - 1))).then()
    ended = given(*history, *events).when(expire(after=timedelta(days=1))).then_events()
    assert [event.because for event in ended if isinstance(event, e.PaymentExpired)] == [e.ExpiredBecause.AUTHORIZATION]


def test_one_that_was_recorded_before_processors_said_so_lapses_after_a_week() -> None:
    order = folded(granted(BY_HAND))
    assert timers_of(order) == (Timer(TimerKind.LAPSE, ONE, NOON + timedelta(days=7)),)
