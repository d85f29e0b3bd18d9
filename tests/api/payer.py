"""Sessions of payers at the sandbox's processor, opened as the ledger opens them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tests.api.storefront import Merchant, Storefront
from uuid_utils.compat import uuid7

from ledger.domain.orders.processor_outcomes import ActionRequired
from ledger.processors.contract import AuthenticationRequest, AuthorizationAnswer, AuthorizationRequest, Card

CHALLENGED, FRICTIONLESS, DEVICE_THEN_CHALLENGE, REDIRECTED = (
    "4000000000003220",
    "4000000000003055",
    "4000000000003063",
    "4000000000007007",
)


async def opened_session(store: Storefront, merchant: Merchant, number: str = CHALLENGED) -> ActionRequired:
    """Returns what the processor asks of a payer with this card."""
    assert store.ledger.processors.sandbox is not None
    request = AuthorizationRequest(
        merchant_id=merchant.merchant_id,
        idempotency_key=str(uuid7()),
        deadline_at=datetime.now(UTC) + timedelta(seconds=10),
        amount=Decimal(150_000),
        currency="MXN",
        card=Card(number=number, exp_month=12, exp_year=2034, cvc="123"),
        capture=True,
        authenticate=True,
    )
    answer = await store.ledger.processors.sandbox.authorize(request)
    assert isinstance(answer, ActionRequired)
    return answer


async def validated(store: Storefront, merchant: Merchant, session: ActionRequired) -> AuthorizationAnswer:
    """Returns the processor's answer once the payer is back."""
    assert store.ledger.processors.sandbox is not None
    return await store.ledger.processors.sandbox.validate_authentication(
        AuthenticationRequest(
            merchant_id=merchant.merchant_id,
            idempotency_key=str(uuid7()),
            deadline_at=datetime.now(UTC) + timedelta(seconds=10),
            authentication_transaction_id=session.authentication_transaction_id,
            capture=True,
        )
    )


def path_of(address: str | None) -> str:
    """Returns a page's path, without the host that serves it."""
    assert address is not None
    return "/" + address.split("/", 3)[3]
