"""Stripe as a processor that merchants connect accounts with: the forms of its keys, their check, and the adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from aiohttp.test_utils import TestServer
from tests.processors.stripe.double import FAILS_BEFORE, Double
from uuid_utils.compat import uuid7

from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMode, AccountTerms
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.registry import AccountKeys, KeyRefused
from ledger.processors.stripe.account_kind import StripeKind

pytestmark = pytest.mark.anyio

NOW = datetime.now(UTC)
SIGNED = ("whsec_1",)


@pytest.fixture
async def kind(server: TestServer) -> AsyncIterator[StripeKind]:
    kind = StripeKind(str(server.make_url("")))
    yield kind
    await kind.stop()


def _soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=10)


def test_keys_are_known_by_their_form():
    kind = StripeKind("https://stripe.example")
    for key, mode in (
        ("sk_test_1", AccountMode.TEST),
        ("rk_test_1", AccountMode.TEST),
        ("sk_live_1", AccountMode.LIVE),
        ("rk_live_1", AccountMode.LIVE),
    ):
        assert (kind.key_problem(key), kind.mode_of(key)) == (None, mode)
        assert kind.publishable_key_problem(key), "a secret key is not for everyone"
    for wrong in ("pk_test_1", "sk_1", "whsec_1", "sk_test_", "sk_test_1 ", ""):
        assert kind.key_problem(wrong)
    assert (kind.publishable_key_problem("pk_live_1"), kind.mode_of("pk_live_1")) == (None, AccountMode.LIVE)


async def test_an_account_is_checked_and_opened(kind: StripeKind, double: Double):
    capabilities = {"card_payments": "active", "oxxo_payments": "active"}
    double.account = {"id": "acct_1", "object": "account", "country": "MX", "charges_enabled": True}
    double.account["capabilities"] = capabilities
    keys = AccountKeys(secret_key=double.key, webhook_secrets=SIGNED)
    facts = await kind.check(keys, _soon())
    assert (facts.mode, facts.reference, facts.country, facts.problems) == (AccountMode.TEST, "acct_1", "MX", ())
    bounds = {(each.type, *each.currencies): (each.amount_min, each.amount_max) for each in facts.methods}
    assert bounds[MethodType.CARD, "MXN"][0] == Decimal(1_000)
    assert {each.type for each in facts.methods} == {MethodType.CARD, MethodType.PAYCASH}
    account = ProcessorAccount(
        account_id=uuid7(),
        name="stripe-mx",
        processor="stripe",
        terms=AccountTerms(mode=AccountMode.TEST, methods=facts.methods, country="MX"),
        created_at=NOW,
        updated_at=NOW,
    )
    processor = kind.open(account, keys)
    assert (processor.capabilities.name, processor.capabilities.takes_card_tokens) == ("stripe", True)


async def test_a_key_that_stripe_refuses_is_refused_in_its_words(kind: StripeKind):
    with pytest.raises(KeyRefused) as refused:
        await kind.check(AccountKeys(secret_key="sk_test_unknown"), _soon())
    assert refused.value.words
    nobody = StripeKind("http://127.0.0.1:1")
    with pytest.raises(ProcessorUnavailable):
        await nobody.check(AccountKeys(secret_key="sk_test_1"), _soon())
    await nobody.stop()


async def test_a_publishable_key_of_another_account_is_noticed(kind: StripeKind, double: Double):
    """Such a key reads a setup intent of its own account alone. None is left open, and no customer or card is made."""
    keys = AccountKeys(secret_key=double.key)
    assert await kind.publishable_key_mismatch("pk_test_1", keys, _soon()) is None
    assert "same account" in str(await kind.publishable_key_mismatch("pk_test_foreign", keys, _soon()))
    assert "refused" in str(await kind.publishable_key_mismatch("pk_test_gone", keys, _soon()))
    assert [each["status"] for each in double.intents.values()] == 3 * ["canceled"]
    double.faults["/setup_intents"] = ["REFUSED", FAILS_BEFORE]
    assert await kind.publishable_key_mismatch("pk_test_foreign", keys, _soon()) is None, "Stripe does not show it"
    double.forbidden = ("setup_intents",)
    assert await kind.publishable_key_mismatch("pk_test_foreign", keys, _soon()) is None, "the key is restricted"
    double.forbidden = ()
    with pytest.raises(ProcessorTimedOut):
        await kind.publishable_key_mismatch("pk_test_foreign", keys, _soon())
    double.faults["/cancel"] = [FAILS_BEFORE]
    assert await kind.publishable_key_mismatch("pk_test_foreign", keys, _soon()), "the answer counts all the same"
