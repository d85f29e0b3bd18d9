"""Differences in the sandbox: its records are changed in their tables, behind the ledger's back."""

from __future__ import annotations

from uuid import uuid4

from tests.sealing import MASTER_KEY

from campaigns.reconciliation.planting import Expected, Figures, Site, refund_key, site
from ledger.background.reconciliation.comparison import Kind, Missing
from ledger.domain.orders.payment import Payment
from ledger.settings import Settings
from ledger.wiring import open_ledger

REPAIRED = ("refund that the log lacks", "void that the log lacks")


async def run(url: str, count: int) -> tuple[dict[str, Figures], int]:
    """Plants each kind so often; returns the figures of each, and how many differences were found that none planted."""
    settings = Settings(database_url=url, database_vault_url=url, master_key=MASTER_KEY)
    async with open_ledger(settings) as ledger, site(ledger, url) as at:
        planted = await _plant(at, count)
        return await at.find(planted, REPAIRED)


async def _plant(at: Site, count: int) -> dict[str, list[Expected]]:
    """Makes the orders, finds no difference, and changes the sandbox's records."""
    sales, refunds = await at.make(4 * count, at.sale), await at.make(3 * count, at.refunded)
    held, voided = await at.make(count, at.held), await at.make(count, at.voided)
    by_hand = await at.make(count, at.captured)
    clean = await at.compare(repair=True)
    assert not clean, f"differences that none has planted: {clean[:3]}"
    template = refund_key(refunds[-1][0])
    return {
        "capture that the log lacks": [_unknown(at, payment) for _, payment in sales[:count]],
        "capture that the processor lacks": [_without_charge(at, each) for _, each in sales[count : 2 * count]],
        "capture of another amount": [_less_captured(at, each) for _, each in sales[2 * count : 3 * count]],
        "refund that the log lacks": [_more_refunded(at, each, template) for _, each in sales[3 * count :]],
        "refund that the processor lacks": [_without_refund(at, refund_key(each)) for each, _ in refunds[:count]],
        "refund of another amount": [_other_refund(at, refund_key(each)) for each, _ in refunds[count : 2 * count]],
        "refund that failed after it succeeded": [
            _refused(at, refund_key(each), "refund-refused") for each, _ in refunds[2 * count :]
        ],
        "void that the log lacks": [_one_void_more(at, payment) for _, payment in held],
        "void that the processor lacks": [_without_void(at, payment) for _, payment in voided],
        "capture that was refused": [_refused(at, each.capture_keys[0], "capture-refused") for _, each in by_hand],
    }


def _unknown(at: Site, like: Payment) -> Expected:
    key = f"unknown-{like.payment_id}"
    at.execute(
        "insert into sandbox_charge (merchant_id, idempotency_key, amount, currency, capture, card_bin, card_last4, "
        f"authorized, captured, reference) select merchant_id, '{key}', amount, currency, capture, card_bin, "
        f"card_last4, authorized, captured, '{key}' from sandbox_charge where idempotency_key = '{like.keys[0]}'"
    )
    return (key, Kind.MISSING, Missing.IN_LEDGER)


def _without_charge(at: Site, payment: Payment) -> Expected:
    at.execute(f"delete from sandbox_charge where idempotency_key = '{payment.keys[0]}'")
    return (payment.keys[0], Kind.MISSING, Missing.AT_PROCESSOR)


def _less_captured(at: Site, payment: Payment) -> Expected:
    at.execute(f"update sandbox_charge set captured = captured - 1 where idempotency_key = '{payment.keys[0]}'")
    return (payment.keys[0], Kind.AMOUNT, Missing.AT_PROCESSOR)


def _more_refunded(at: Site, payment: Payment, like: str) -> Expected:
    key = f"{uuid4()}:{payment.payment_id}"
    _add_call(at, key, payment, f"idempotency_key = '{like}'")
    return (key, Kind.MISSING, Missing.IN_LEDGER)


def _without_refund(at: Site, key: str) -> Expected:
    at.execute(f"delete from sandbox_call where idempotency_key = '{key}'")
    return (key, Kind.MISSING, Missing.AT_PROCESSOR)


def _other_refund(at: Site, key: str) -> Expected:
    at.execute(f"update sandbox_call set moved = moved + 10000 where idempotency_key = '{key}'")
    return (key, Kind.AMOUNT, Missing.IN_LEDGER)


def _one_void_more(at: Site, payment: Payment) -> Expected:
    key = f"void-{payment.payment_id}"
    own = "(select idempotency_key from sandbox_call where kind = 'VOID' order by booked_at limit 1)"
    _add_call(at, key, payment, f"kind = 'VOID' and idempotency_key = {own}")
    return (key, Kind.MISSING, Missing.IN_LEDGER)


def _without_void(at: Site, payment: Payment) -> Expected:
    at.execute(f"delete from sandbox_call where kind = 'VOID' and reference = '{payment.processor_reference}'")
    return (payment.keys[-1], Kind.MISSING, Missing.AT_PROCESSOR)


def _refused(at: Site, key: str, answer: str) -> Expected:
    text = f'{{"type":"{answer}","code":"ACCOUNT_CLOSED"}}'
    at.execute(f"update sandbox_call set accepted = false, answer = '{text}' where idempotency_key = '{key}'")
    return (key, Kind.STATUS, Missing.AT_PROCESSOR)


def _add_call(at: Site, key: str, payment: Payment, like: str) -> None:
    """Adds a call about a payment, with the content of another call."""
    at.execute(
        "insert into sandbox_call (merchant_id, kind, idempotency_key, reference, moved, accepted, answer) select "
        f"merchant_id, kind, '{key}', '{payment.processor_reference}', moved, accepted, answer from sandbox_call "
        f"where {like}"
    )
