"""A year of electronic invoices, and what the report of each month makes of them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import msgspec
import psycopg
import pytest
from tests.domain.invoices import baskets

from ledger.cli.merchants import _headings
from ledger.domain.orders.invoices.events import (
    TOPICS,
    CancellationMotive,
    DocumentAnnounced,
    DocumentCancellationRequested,
    DocumentCancelled,
    DocumentRefused,
    DocumentStamped,
    StampingRequested,
)
from ledger.postgres.connection import connect
from projections.global_invoices import MOVEMENT_COLUMNS, GlobalMovement, MovementType
from projections.orders.missing_documents import COLUMNS as MISSING_COLUMNS
from projections.orders.missing_documents import MissingDocument
from projections.orders.month_end import COLUMNS, HEADINGS, MORE_MISSING, Month, MonthLine, as_csv, as_page, month_lines

pytestmark = pytest.mark.anyio

ZONE = "America/Tijuana"
MERCHANT, OTHER = uuid4(), uuid4()
NAMES = {kind: topic for topic, kind in TOPICS.items()}


def announced(terms: Any) -> DocumentAnnounced:
    return DocumentAnnounced(slot="invoice", terms=terms, at=terms.issued_at)


def course(random: Random, terms: Any) -> tuple[str, list[Any]]:
    """Returns how a document ends, and its events."""
    at, name = terms.issued_at, terms.document_id
    asked = StampingRequested(
        document_id=name, provider="sandbox", certificate="30001000000500003416", deadline_at=at, at=at
    )
    refused = DocumentRefused(document_id=name, code="CFDI40145", message="No.", at=at)
    stamped = DocumentStamped(
        document_id=name, fiscal_uuid=uuid4(), invoice_id="x", stamped_at=at, xml_key="x", pdf_key="p",
        xml_sha256="0", at=at,
    )  # fmt: skip
    later = at + timedelta(days=random.randint(1, 90))
    cancelled = [
        DocumentCancellationRequested(
            document_id=name, motive=CancellationMotive.WITHOUT_SUBSTITUTE, provider="sandbox", deadline_at=at, at=later
        ),
        DocumentCancelled(document_id=name, at=later),
    ]
    return random.choice([
        ("PENDING", []),
        ("PENDING", [asked]),
        ("PENDING", [asked, refused, asked]),
        ("FAILED", [asked, refused]),
        ("EMITTED", [asked, stamped]),
        ("EMITTED", [asked, refused, asked, stamped]),
        ("CANCELLED", [asked, stamped, *cancelled]),
    ])  # fmt: skip


def write(url: str, merchant_id: UUID, events: Iterable[tuple[UUID, int, Any]]) -> None:
    rows = [
        (merchant_id, stream, version, uuid4(), event.at, NAMES[type(event)], msgspec.json.encode(event))
        for stream, version, event in events
    ]
    with psycopg.connect(url) as connection:
        start = connection.execute("select coalesce(max(position), 0) from event where merchant_id = %s", [merchant_id])
        (position,) = start.fetchone() or (0,)
        connection.cursor().executemany(
            "insert into event (merchant_id, stream_id, version, command_id, recorded_at, topic, data, context, position)"
            " values (%s, %s, %s, %s, %s, %s, %s, '{}', %s)",
            [(*row, position + n) for n, row in enumerate(rows, 1)],
        )


def numbered(stream: UUID, events: list[Any]) -> Iterator[tuple[UUID, int, Any]]:
    return ((stream, version, event) for version, event in enumerate(events, 1))


@pytest.fixture
def year(database_url: str) -> Counter[tuple[str, str, str, str, str]]:
    """Writes a year's documents. Returns what the months have to show, counted by other means than the report's."""
    random, shown = Random(13), Counter[tuple[str, str, str, str, str]]()
    all_events = list[tuple[UUID, int, Any]]()
    for n in range(120):
        at = datetime(2026, 1, 1, 8, tzinfo=UTC) + timedelta(seconds=random.randrange(365 * 86_400))
        lines, subtotal = msgspec.structs.astuple(baskets.basket(random))
        method, currency = random.choice(["PUE", "PPD"]), random.choice(["MXN", "MXN", "USD"])
        terms = baskets.invoice(
            lines, subtotal, document_id=uuid4(), issued_at=at, method=method, currency=currency,
            payment_form="03" if method == "PUE" else None,
            exchange_rate=None if currency == "MXN" else Decimal("18.5"),
        )  # fmt: skip
        documents = [("INVOICE_" + method, terms, terms.total)]
        if method == "PPD" and n % 2:
            paid = msgspec.structs.replace(
                baskets.receipt(terms, subtotal, subtotal), document_id=uuid4(), issued_at=at
            )
            documents.append(("REP", paid, paid.applied_amount))
        elif method == "PPD":
            note = msgspec.structs.replace(baskets.credit_note(terms, 0, subtotal), document_id=uuid4(), issued_at=at)
            documents.append(("CREDIT_NOTE", note, note.total))
        stream, events, is_gone = uuid4(), list[Any](), False
        for kind, document, total in documents:
            state, more = course(random, document)
            events += [announced(document), *more]
            if kind.startswith("INVOICE"):
                is_gone = state == "CANCELLED"
            elif is_gone and state in {"PENDING", "FAILED"}:
                continue  # it was dropped with its invoice
            month = f"{at.astimezone(ZoneInfo(ZONE)):%Y-%m}"
            group = month, kind, state, currency
            shown[(*group, "documents")] += 1
            shown[(*group, "total")] += int(total)
            for tax in document.taxes:
                column = {"IVA": "iva", "IEPS": "ieps", "ISR": "isr"}[tax.type] + ("_withheld" if tax.withheld else "")
                shown[(*group, column)] += int(tax.amount)
        all_events += numbered(stream, events)
    write(database_url, MERCHANT, all_events)
    return shown


async def test_a_years_months_agree_with_the_log(year: Counter[Any], database_url: str) -> None:
    found = Counter[tuple[str, str, str, str, str]]()
    async with await connect(database_url, "test") as connection:
        for month in range(1, 13):
            lines = await month_lines(connection, MERCHANT, 2026, month, ZONE)
            assert lines == sorted(lines, key=lambda line: (line.kind, line.state, line.currency))
            for line in lines:
                group = f"2026-{month:02}", line.kind, line.state, line.currency
                found[(*group, "documents")] = line.documents
                for column in ("total", "iva", "ieps", "iva_withheld", "isr_withheld"):
                    found[(*group, column)] = int(getattr(line, column) * 100)
        assert await month_lines(connection, OTHER, 2026, 1, ZONE) == []
    assert +found == +year
    assert {key[2] for key in found} == {"PENDING", "EMITTED", "FAILED", "CANCELLED"}
    assert {key[1] for key in found} == {"INVOICE_PUE", "INVOICE_PPD", "REP", "CREDIT_NOTE"}


async def test_the_month_is_that_of_the_merchants_zone_and_of_the_latest_terms(database_url: str) -> None:
    midnight = datetime(2026, 2, 1, 8, tzinfo=UTC)  # in Tijuana
    before, after = (
        baskets.invoice(document_id=uuid4(), issued_at=midnight + timedelta(seconds=offset)) for offset in (-1, 0)
    )
    moved = msgspec.structs.replace(before, issued_at=midnight + timedelta(days=3))
    write(database_url, OTHER, numbered(uuid4(), [announced(before)]))
    write(database_url, OTHER, numbered(uuid4(), [announced(after)]))
    again = msgspec.structs.replace(before, document_id=uuid4())
    moved = msgspec.structs.replace(moved, document_id=again.document_id)
    write(database_url, OTHER, numbered(uuid4(), [announced(again), announced(moved)]))
    async with await connect(database_url, "test") as connection:
        counts = [
            [line.documents for line in await month_lines(connection, OTHER, 2026, month, ZONE)] for month in (1, 2, 3)
        ]
    assert counts == [[1], [2], []]


def test_the_report_is_a_table_of_csv_and_a_page() -> None:
    line = MonthLine(
        kind="REP", state="EMITTED", currency="MXN", documents=3, total=Decimal("1160.5"), iva=Decimal(160),
        ieps=Decimal(0), iva_withheld=Decimal(0), isr_withheld=Decimal(0),
    )  # fmt: skip
    assert as_csv([line]) == (
        "kind,state,currency,documents,total,iva,ieps,ivaWithheld,isrWithheld\r\n"
        "REP,EMITTED,MXN,3,1160.50,160.00,0.00,0.00,0.00\r\n"
    )
    page = as_page(Month(lines=[line], missing=[]), "Café <Tacuba>")
    assert "<h1>Café &lt;Tacuba&gt;</h1>" in page
    assert ">1,160.50</td>" in page
    assert re.findall(r"<th[^>]*>([^<]*)</th>", page) == [
        "Kind", "State", "Currency", "Documents", "Total", "IVA", "IEPS", "IVA withheld", "ISR withheld",
    ]  # fmt: skip
    assert '<meta name="viewport"' in page


def test_each_column_has_a_heading_for_people() -> None:
    assert {*COLUMNS, *MISSING_COLUMNS, *MOVEMENT_COLUMNS} == HEADINGS.keys()
    assert _headings(COLUMNS)[-2:] == ("IVA WITHHELD", "ISR WITHHELD")


def test_the_page_lists_what_is_not_stamped_and_an_empty_month() -> None:
    missing = MissingDocument(
        order_id=uuid4(), document_id=uuid4(), kind="REP", state="FAILED", currency="MXN", total=Decimal(1160),
        failure_code="CFDI40147", failure_reason="<El nombre>",
    )  # fmt: skip
    moved = GlobalMovement(
        type=MovementType.REFUND, order_id=uuid4(), global_invoice_id=uuid4(), amount=Decimal(123456)
    )
    page = as_page(Month(lines=[], missing=[missing], moved=[moved], has_more_missing=True), "November")
    for text in (
        "<p>No documents.</p>",
        "&lt;El nombre&gt;",
        ">1,160.00<",
        ">1,234.56<",
        ">Global invoice<",
        MORE_MISSING,
    ):
        assert text in page


async def test_the_index_of_documents_holds_the_topics_that_a_month_reads(database_url: str) -> None:
    from projections.orders.month_end import _READ

    read = set(re.findall(r"'([a-z-]+\.v1)'", _READ))
    async with await connect(database_url, "test") as connection:
        row = await (await connection.execute("select pg_get_indexdef('event_of_documents'::regclass)")).fetchone()
    assert row is not None
    assert set(re.findall(r"'([a-z-]+\.v1)'", row[0])) == read
