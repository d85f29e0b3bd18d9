"""An authorisation that is not captured lapses after its processor's validity (contract 2.1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import expire, record_authentication
from tests.domain.builders import NOON, approved, folded, record_authorization
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    CHALLENGE,
    MANUAL_CAPTURE,
    ONE,
    authenticating,
    with_authorization,
    with_card_payment,
)

from ledger.domain.orders import events as e
from ledger.domain.orders.timers import Timer, TimerKind, timers_of

A_DAY = 86_400


@pytest.mark.parametrize(
    ("history", "command"),
    [
        (with_card_payment(MANUAL_CAPTURE), record_authorization(1, approved(10000, 0))),
        (authenticating(MANUAL_CAPTURE, CHALLENGE), record_authentication(approved(10000, 0))),
    ],
    ids=["at once", "after the payer has acted"],
)
def test_an_authorisation_lapses_after_its_processors_validity(history: tuple[Any, ...], command: Any) -> None:
    events = given(*history).when(replace(command, authorization_s=A_DAY)).then_events()
    order = folded((*history, *events))
    assert timers_of(order) == (Timer(TimerKind.LAPSE, ONE, NOON + timedelta(days=1)),)
    given(*history, *events).when(expire(after=timedelta(seconds=A_DAY - 1))).then()
    ended = given(*history, *events).when(expire(after=timedelta(days=1))).then_events()
    assert [event.because for event in ended if isinstance(event, e.PaymentExpired)] == [e.ExpiredBecause.AUTHORIZATION]


def test_an_authorisation_recorded_without_a_validity_lapses_after_a_week() -> None:
    order = folded(with_authorization(MANUAL_CAPTURE))
    assert timers_of(order) == (Timer(TimerKind.LAPSE, ONE, NOON + timedelta(days=7)),)
