"""An account with a processor: connected, changed, disconnected, connected again; and what a merchant leaves of it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.builders import NOON
from tests.domain.scenario import given

from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.commands import ConnectAccount, DisconnectAccount
from ledger.domain.processor_accounts.decide import decide_connect, decide_disconnect
from ledger.domain.processor_accounts.events import (
    ProcessorAccountChanged,
    ProcessorAccountConnected,
    ProcessorAccountDisconnected,
)
from ledger.domain.processor_accounts.evolve import evolve
from ledger.domain.processor_accounts.methods import MethodLimit, limited
from ledger.domain.processor_accounts.state import account_id, built_in_account
from ledger.domain.processor_accounts.terms import AccountMethod, AccountMode, AccountStatus, AccountTerms
from ledger.domain.rejections import InvalidField, ProcessorAccountExists

LATER = NOON + timedelta(hours=1)
MERCHANT = UUID(int=1)
ACCOUNT = account_id(MERCHANT, "stripe-mx")
PESOS = AccountMethod(
    type=MethodType.CARD,
    currencies=("MXN",),
    amount_min=Decimal(1000),
    amount_max=Decimal(5000000),
    installments=(3, 6, 9),
)
DOLLARS = AccountMethod(type=MethodType.CARD, currencies=("USD",), amount_min=Decimal(50), amount_max=Decimal(99999999))
SPEI = AccountMethod(type=MethodType.SPEI, currencies=("MXN",), amount_min=Decimal(1), amount_max=Decimal(99999999))
METHODS = (PESOS, DOLLARS, SPEI)
TERMS = AccountTerms(mode=AccountMode.TEST, methods=METHODS, country="MX", secret_id=UUID(int=7))
OTHER_TERMS = replace(TERMS, methods=(SPEI,), secret_id=UUID(int=8))
CONNECTED = ProcessorAccountConnected(account_id=ACCOUNT, name="stripe-mx", processor="stripe", terms=TERMS, at=NOON)
DISCONNECTED = ProcessorAccountDisconnected(account_id=ACCOUNT, at=LATER)


def connecting(**fields: Any) -> ConnectAccount:
    known = {"account_id": ACCOUNT, "name": "stripe-mx", "processor": "stripe", "terms": TERMS, "at": LATER}
    return ConnectAccount(**known | fields)


def test_an_account_is_connected_changed_disconnected_and_connected_again():
    account = given().when(connecting(at=NOON)).then(CONNECTED)
    assert (account.status, account.created_at, account.updated_at) == (AccountStatus.CONNECTED, NOON, NOON)
    given(CONNECTED).when(connecting()).then()
    changed = ProcessorAccountChanged(account_id=ACCOUNT, terms=OTHER_TERMS, at=LATER)
    account = given(CONNECTED).when(connecting(terms=OTHER_TERMS)).then(changed)
    assert (account.terms, account.updated_at) == (OTHER_TERMS, LATER)
    account = given(CONNECTED).when(DisconnectAccount(at=LATER)).then(DISCONNECTED)
    assert (account.status, account.disconnected_at) == (AccountStatus.DISCONNECTED, LATER)
    assert account.terms == TERMS, "what the account has is captured and refunded with its keys"
    again = replace(CONNECTED, at=LATER)
    account = given(CONNECTED, DISCONNECTED).when(connecting()).then(again)
    assert (account.status, account.created_at, account.updated_at) == (AccountStatus.CONNECTED, NOON, LATER)


def test_a_name_never_goes_to_another_processor():
    for history in ((CONNECTED,), (CONNECTED, DISCONNECTED)):
        given(*history).when(connecting(processor="sandbox")).then_rejected(ProcessorAccountExists, field="processor")


def test_a_name_never_goes_to_another_account_of_its_processor():
    first, other = (connecting(terms=replace(TERMS, reference=name)) for name in ("acct_1", "acct_2"))
    taken = ProcessorAccountChanged(account_id=ACCOUNT, terms=first.terms, at=LATER)
    given(CONNECTED).when(first).then(taken)  # it was connected before ids were kept
    for history in ((CONNECTED, taken), (CONNECTED, taken, DISCONNECTED)):
        given(*history).when(other).then_rejected(ProcessorAccountExists, field="secretKey")


def test_the_account_without_a_stream_begins_one_as_old_as_its_merchant():
    built_in = built_in_account(MERCHANT, TERMS, NOON)
    command = ConnectAccount(account_id=built_in.account_id, name="sandbox", processor="sandbox", terms=TERMS, at=LATER)
    assert decide_connect(built_in, command) == []
    for events in (
        decide_connect(built_in, replace(command, terms=OTHER_TERMS)),
        decide_disconnect(built_in, DisconnectAccount(at=LATER)),
    ):
        first, second = events
        account = evolve(None, first)
        assert account == replace(built_in, is_built_in=False)
        assert evolve(account, second).created_at == NOON
    with pytest.raises(ProcessorAccountExists):
        decide_connect(built_in, replace(command, processor="stripe"))


def test_a_merchant_limits_what_an_account_takes():
    assert limited(METHODS, None) == METHODS
    assert limited(METHODS, [MethodLimit(type=MethodType.SPEI)]) == (SPEI,)
    assert limited(METHODS, [MethodLimit(type=MethodType.CARD)]) == (PESOS, DOLLARS)
    few = MethodLimit(
        type=MethodType.CARD, currencies=("MXN",), amount_min=Decimal(2000), amount_max=Decimal(9000), installments=(3,)
    )
    assert limited(METHODS, [few, MethodLimit(type=MethodType.CARD, currencies=("USD",))]) == (
        replace(PESOS, amount_min=Decimal(2000), amount_max=Decimal(9000), installments=(3,)),
        DOLLARS,
    )


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        (MethodLimit(type=MethodType.PAYCASH), "methods[1].type"),
        (MethodLimit(type=MethodType.CARD, currencies=("MXN", "EUR")), "methods[1].currencies"),
        (MethodLimit(type=MethodType.SPEI), "methods[1].type"),
        (MethodLimit(type=MethodType.CARD, amount_min=Decimal(999)), "methods[1].amountMin"),
        (MethodLimit(type=MethodType.CARD, amount_max=Decimal(5000001)), "methods[1].amountMax"),
        (MethodLimit(type=MethodType.CARD, amount_min=Decimal(9), amount_max=Decimal(8)), "methods[1].amountMin"),
        (MethodLimit(type=MethodType.CARD, amount_min=Decimal(9000), amount_max=Decimal(8000)), "methods[1].amountMax"),
        (MethodLimit(type=MethodType.CARD, installments=(3, 24)), "methods[1].installments"),
    ],
)
def test_a_limit_beyond_what_the_processor_takes_is_refused(limit: MethodLimit, field: str):
    with pytest.raises(InvalidField) as refused:
        limited(METHODS, [MethodLimit(type=MethodType.SPEI), limit])
    assert refused.value.field == field
