"""The sandbox's references: CLABEs and cash references, the deposits that arrive at them, and payouts.

A CLABE or reference is issued once, over all merchants. Money that is sent to one is reported even if the reference
was cancelled or has expired. Store cash accepts only the exact amount, a CLABE any amount.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID, uuid4

from msgspec import Struct

from ledger.domain.money import SCALE, scaled, shortest
from ledger.domain.orders.processor_outcomes import (
    ReferenceCancelled,
    ReferenceIssued,
    ReferenceRefused,
    RefundPending,
    RefundRefused,
)
from ledger.domain.orders.terms import MethodType
from ledger.postgres.connection import Connection
from ledger.processors.clabe import check_digit, is_clabe
from ledger.processors.contract import PayoutRequest, ReferenceCancellation, ReferenceRequest
from ledger.processors.messages import DepositReceived
from ledger.processors.sandbox import outbox
from ledger.processors.sandbox.books import NAME
from ledger.processors.sandbox.call_executor import CallEffect, CallExecutor, CallResult, fetch_one, reference_for
from ledger.processors.sandbox.charges import refund_confirmed, refund_failed

CONVENIO: Final = "1420338"
"""The collection agreement (convenio) between the sandbox's bank and its processor."""

_BANK_AND_CITY: Final = "646180"
_CASH_PREFIX: Final = "93"
_ACCOUNTS: Final = 10**11
_STRIDE: Final = 39_916_801_007  # shares no factor with _ACCOUNTS: every number is issued once before any repeats

_NEXT_NUMBER: Final = "select nextval('sandbox_account_number')"

# A new reference.
_ISSUE: Final = """
insert into sandbox_reference (processor_reference, merchant_id, idempotency_key, order_id, payment_id, method,
                               reference, clabe, convenio, amount, currency, expires_at)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

# The payment that a deposit is for.
_OWNER: Final = """
select processor_reference, order_id, payment_id, clabe, amount, currency from sandbox_reference
 where merchant_id = %s and (clabe = %s or reference = %s)
"""

# What was deposited to a reference, and what was paid out of it.
_BALANCE: Final = """
select coalesce(sum(c.moved) filter (where c.kind = 'DEPOSIT'), 0)::int8,
       coalesce(sum(c.moved) filter (where c.kind = 'PAY_OUT'), 0)::int8
  from sandbox_reference r
  left join sandbox_call c on c.merchant_id = r.merchant_id and c.reference = r.processor_reference and c.accepted
 where r.merchant_id = %s and r.processor_reference = %s having count(r.*) > 0
"""


class Deposit(Struct, frozen=True, kw_only=True):
    """Money from a payer: `amount` minor units to a CLABE or cash reference, at a time of the merchant's clock.

    `sender_clabe` is the payer's account, if the bank names it.
    """

    merchant_id: UUID
    message_id: str
    sent_to: str
    amount: Decimal
    at: datetime
    sender_clabe: str | None = None


class ReferenceOwner(Struct, frozen=True, kw_only=True):
    """The payment that a reference was issued for."""

    processor_reference: str
    order_id: UUID | None
    payment_id: UUID | None
    currency: str
    exact: Decimal | None
    """The only amount that the reference accepts, in minor units; None if it accepts any."""


class WrongAmount(Exception):
    """The store's network accepts exactly `expected` minor units."""

    def __init__(self, expected: Decimal) -> None:
        super().__init__(f"the reference takes exactly {expected}")
        self.expected = expected


def issue(request: ReferenceRequest) -> CallEffect:
    """Returns the effect that issues a new reference."""

    async def effect(connection: Connection) -> CallResult:
        if request.method is MethodType.CARD or request.currency != "MXN":
            return CallResult(
                ReferenceRefused(code="NOT_SUPPORTED", message="References are for pesos."), accepted=False
            )
        row = await fetch_one(connection, _NEXT_NUMBER, ())
        assert row is not None, "a sequence has a next value"
        issued = _issued(request, f"{row[0] * _STRIDE % _ACCOUNTS:011}")
        ids = (request.merchant_id, request.idempotency_key, request.order_id, request.payment_id)
        numbers = (issued.reference, issued.clabe, issued.convenio)
        terms = (scaled(request.amount), request.currency, request.expires_at)
        await connection.execute(_ISSUE, (issued.processor_reference, *ids, request.method, *numbers, *terms))
        return CallResult(issued)

    return effect


def cancel(request: ReferenceCancellation) -> CallEffect:
    """Returns the effect of a cancellation, which stores nothing: a payer who has the number can still send money."""

    async def effect(_: Connection) -> CallResult:
        return CallResult(ReferenceCancelled(processor_reference=request.processor_reference))

    return effect


def pay_out(request: PayoutRequest) -> CallEffect:
    """Returns the effect that pays out what was deposited. A message reports the end.

    A payout to a holder whose name contains `fail` fails.
    """

    async def effect(connection: Connection) -> CallResult:
        row = await fetch_one(connection, _BALANCE, (request.merchant_id, request.processor_reference))
        if row is None:
            return _reject("UNKNOWN_TRANSACTION", "There is no such reference.")
        if scaled(request.amount) > row[0] - row[1]:
            return _reject("AMOUNT_TOO_LARGE", "That is more than is left of what came in.")
        destination = request.destination
        if destination is not None and not is_clabe(destination.clabe):
            return _reject("INVALID_ACCOUNT", "The account to pay to is no CLABE.")
        reference = reference_for("pay", request)
        pending = RefundPending(processor_reference=reference)
        if destination is not None and "fail" in (destination.account_holder or "").lower():
            await outbox.enqueue(connection, refund_failed(request, reference, "ACCOUNT_REFUSED"))
            return CallResult(pending)
        await outbox.enqueue(connection, refund_confirmed(request, reference, request.amount))
        return CallResult(pending, moved=request.amount)

    return effect


def deposit(sent: Deposit, owner: ReferenceOwner | None) -> CallEffect:
    """Returns the effect that accepts money and reports it. It raises WrongAmount, and accepts nothing then."""

    async def effect(connection: Connection) -> CallResult:
        if owner is not None and owner.exact is not None and owner.exact != sent.amount:
            raise WrongAmount(owner.exact)
        message = DepositReceived(
            processor=NAME,
            message_id=sent.message_id,
            merchant_id=sent.merchant_id,
            occurred_at=sent.at,
            order_id=owner.order_id if owner else None,
            payment_id=owner.payment_id if owner else None,
            reference=sent.sent_to,
            amount=sent.amount,
            currency=owner.currency if owner else "MXN",
            processor_reference=f"sbx_dep_{uuid4().hex}",
            sender_clabe=sent.sender_clabe,
        )
        message = await outbox.enqueue(connection, message)
        return CallResult(message, moved=sent.amount)

    return effect


async def reference_owner(executor: CallExecutor, merchant_id: UUID, sent_to: str) -> ReferenceOwner | None:
    """Returns the payment for which this merchant's CLABE or reference was issued, None if it is unknown."""
    async with executor.connection() as connection:
        row = await fetch_one(connection, _OWNER, (merchant_id, sent_to, sent_to))
    if row is None:
        return None
    processor_reference, order_id, payment_id, clabe, amount, currency = row
    return ReferenceOwner(
        processor_reference=processor_reference,
        order_id=order_id,
        payment_id=payment_id,
        currency=currency,
        exact=None if sent_to == clabe else shortest(Decimal(amount) / SCALE),
    )


def _issued(request: ReferenceRequest, number: str) -> ReferenceIssued:
    account = _BANK_AND_CITY + number
    clabe = account + check_digit(account)
    cash = number + luhn_digit(number)
    by_method = {
        MethodType.SPEI: (clabe, clabe, None),
        MethodType.PAYCASH: (_CASH_PREFIX + cash, None, None),
        MethodType.CIE_CASH_NET: (cash, clabe, CONVENIO),
    }
    reference, own_clabe, convenio = by_method[request.method]
    return ReferenceIssued(
        reference=reference,
        processor_reference=reference_for("rcv", request),
        expires_at=request.expires_at,
        clabe=own_clabe,
        convenio=convenio,
    )


def luhn_digit(digits: str) -> str:
    """Returns the check digit of these digits by Luhn's algorithm.

    >>> luhn_digit("7992739871")
    '3'
    """
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in digits[::-1][::2]]
    return str(-(sum(doubled) + sum(int(digit) for digit in digits[::-1][1::2])) % 10)


def _reject(code: str, message: str) -> CallResult:
    return CallResult(RefundRefused(code=code, message=message), accepted=False)
