"""How many documents a worker stamps per second, against making the same documents in one process without a log (S).

The worker is the real one, started by its own command, with the simulated provider at once. A document is composed,
sealed, checked and stamped by the provider, printed and stored, and three commits record it.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import psycopg
from msgspec.structs import replace

from ledger.bench.load import order_body
from ledger.bench.measure.report import Ratio, Report
from ledger.bench.measure.resources import cpu_s, largest_child, peak_mb, resident_mb
from ledger.bench.measure.samples import NothingDone, Sample, sample, show_progress
from ledger.bench.suites.http import LEDGER, environment, new_merchant
from ledger.domain.invoices.documents import invoice_terms, receipt_terms
from ledger.domain.invoices.terms import DocumentTerms, Issuer
from ledger.domain.orders.commands import CreateOrder
from ledger.domain.orders.terms import CardSummary, FiscalData, MethodType
from ledger.operations.inputs import Actor, CustomerInput, OrderInput, PaymentInput
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.create import create_order
from ledger.processors.contract import Card
from ledger.settings import Settings
from ledger.wiring import open_ledger

PAYMENTS: Final = 3
"""The payments of an order, each with a receipt. With its invoice an order has one document more."""
_ORDERS_PER_S: Final = 20
_AT_ONCE: Final = 8
_PATIENCE_S: Final = 120.0
_WORKER, _ALONE = "worker", "S: the same documents in one process"
_RECEIVER: Final = FiscalData(
    tax_id="URE180429TM6",
    legal_name="UNIVERSIDAD ROBOTICA ESPAÑOLA",
    tax_system="601",
    cfdi_use="G03",
    zip_code="86991",
)
_ISSUER: Final = Issuer(rfc="EKU9003173C9", legal_name="ESCUELA KEMPER URGATE", tax_system="601", zip_code="42501")
_NUMBER: Final = "4242424242424242"
_STAMPED: Final = "select recorded_at from event where topic = 'document-stamped.v1' order by recorded_at"


def report(url: str, settings: Settings, folder: Path, seconds: float) -> Report:
    """Measures how a worker stamps the documents of twenty orders for each of `seconds`. Raises CannotRun."""
    orders = max(2, round(_ORDERS_PER_S * seconds))
    merchant_id, _ = new_merchant(url, folder)
    show_progress(f"creating {orders} orders")
    asyncio.run(
        _create(replace(settings, database_url=url, data_dir=folder, environment="sandbox"), merchant_id, orders)
    )
    documents = orders * (1 + PAYMENTS)
    with _worker(url, folder) as process:
        show_progress(f"stamping {documents} documents")
        first, used, pid = _wait_for(url, process, 1), 0.0, largest_child(process.pid)
        before = cpu_s(pid or 0)
        last = _wait_for(url, process, documents)
        used = cpu_s(pid or 0) - before
        resident, peak = resident_mb(pid), peak_mb(pid)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(last)]
    by_worker = sample(gaps, max(1e-9, (last[-1] - last[0]).total_seconds()))
    alone = _alone(min(documents, 100))
    return Report(
        name=f"Stamping of {documents} documents by one worker",
        samples={_WORKER: by_worker, _ALONE: alone},
        ratios=[Ratio(of=_WORKER, to=_ALONE, value=by_worker.per_second / alone.per_second)],
        facts={
            "worker, processor time of a document": f"{used / max(1, len(last) - len(first)) * 1e3:.0f} ms",
            "worker, resident": f"{resident:.0f} MB, at most {peak:.0f} MB",
        },
    )


async def _create(settings: Settings, merchant_id: UUID, orders: int) -> None:
    """Creates split orders that are paid in parts, while no worker runs."""
    names = iter(range(orders))
    actor = Actor(merchant_id=merchant_id, request_id="bench")
    async with open_ledger(settings) as ledger:

        async def client() -> None:
            for n in names:
                terms = replace(_order(f"stamped-{n}").terms, allow_partials=True, fiscal=_RECEIVER)
                customer = CustomerInput(external_id="cliente-5521", first_name="María Fernanda")
                await create_order(ledger, actor, OrderInput(terms=terms, customer=customer))
                part = terms.amount // PAYMENTS
                for amount in (part, part, terms.amount - 2 * part):
                    await add_payment(ledger, actor, terms.external_id or "", _by_card(amount))

        await asyncio.gather(*[client() for _ in range(_AT_ONCE)])


def _order(external_id: str) -> CreateOrder:
    return order_body.command(uuid4(), uuid4(), external_id, "1001")


def _by_card(amount: Decimal) -> PaymentInput:
    summary = CardSummary(
        bin=_NUMBER[:6],
        last4=_NUMBER[-4:],
        brand="VISA",
        type="CREDIT",
        country=None,
        issuer_bank=None,
        exp_month=12,
        exp_year=2030,
    )
    card = Card(number=_NUMBER, exp_month=12, exp_year=2030, cvc="123")
    return PaymentInput(type=MethodType.CARD, card=card, card_summary=summary, amount=amount)


@contextmanager
def _worker(url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    variables = environment(url, folder) | {"LEDGER_SANDBOX_DELAY_MS": "0"}
    process = subprocess.Popen([*LEDGER, "worker"], stdout=subprocess.DEVNULL, env=variables)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(url: str, process: subprocess.Popen[bytes], documents: int) -> list[datetime]:
    """Returns when each document was stamped, once there are so many. Raises NothingDone."""
    seen, until = 0, time.monotonic() + _PATIENCE_S
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < until and process.poll() is None:
            stamped = [at for (at,) in connection.execute(_STAMPED)]
            if len(stamped) >= documents:
                return stamped
            if len(stamped) > seen:
                seen, until = len(stamped), time.monotonic() + _PATIENCE_S
            time.sleep(0.05)
    raise NothingDone(f"the worker has stamped {seen} of {documents} documents")


def _alone(documents: int) -> Sample:
    """Composes, seals, stamps and prints as many documents of such orders, one after another."""
    from ledger.invoicing.certificates import generate_csd, load_signer
    from ledger.invoicing.cfdi.build import build
    from ledger.invoicing.pdf.render import render
    from ledger.invoicing.providers.seals import SealedDocument, add_stamp, check_seal

    signer = load_signer(generate_csd(_ISSUER.rfc, _ISSUER.legal_name, "30001000000500003416"))
    pac = "SPR190613I52"
    provider = load_signer(generate_csd(pac, "BENCH PAC", "30001000000500003456", branch=f"PAC{pac}"))
    latencies, began = [], time.perf_counter()
    for n in range(documents + 1):
        now, at = time.perf_counter(), datetime.now(UTC)
        checked = check_seal(build(_terms(n, at), _ISSUER, signer))
        assert isinstance(checked, SealedDocument), "a document with a valid seal is accepted"
        render(add_stamp(checked, provider, UUID(int=n), at))
        if n:
            latencies.append(time.perf_counter() - now)
        else:  # the first one loads libraries
            began = time.perf_counter()
    return sample(latencies, time.perf_counter() - began)


def _terms(n: int, at: datetime) -> DocumentTerms:
    """Returns the n-th document: an order's invoice, or the receipt of one of its parts."""
    order = _order("alone").terms
    invoice = invoice_terms(
        document_id=UUID(int=n),
        folio=str(n),
        issued_at=at,
        method="PPD",
        currency=order.currency,
        exchange_rate=None,
        receiver=_RECEIVER,
        lines=order.line_items,
        subtotal=order.amount,
        description=order.description,
        payment_form=None,
        issuer=_ISSUER,
    )
    installment = n % (PAYMENTS + 1)
    if not installment:
        return invoice
    part = order.amount // PAYMENTS
    return receipt_terms(
        document_id=UUID(int=n),
        folio=str(n),
        issued_at=at,
        invoice=invoice,
        fiscal_uuid=UUID(int=n),
        payment_id=UUID(int=n),
        paid_at=at,
        payment_form="04",
        installment=installment,
        previous_balance=order.amount - (installment - 1) * part,
        applied_amount=part,
    )
