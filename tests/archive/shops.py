"""Merchants with objects of every kind in a sealed log, and everything that is answered from it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import msgspec
from msgspec import structs
from tests.api.bodies import paid_order
from tests.api.isolation.objects import objects_of
from tests.api.log.test_log import seal, url_of
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.tlog.logs import append, execute

from ledger.audit.auditor import audit
from ledger.backup.event_archiving import Archived, archive_events
from ledger.backup.export import export_events
from ledger.backup.log_reader import log_reader
from ledger.backup.rebuild import rebuild
from ledger.settings import Settings
from projections.read_models import NAMES

REFERENCES = "select count(*) from event where merchant_id = %s and substring(data from 1 for 1) = '\\x00'"
LARGE = """
select count(*) from event e where merchant_id = %s and exists (
  select from payment_order o where o.merchant_id = e.merchant_id and o.order_id = e.stream_id)
  and octet_length(data) > 72
"""
_IDS = "select order_id, version from payment_order where merchant_id = %s order by 1"
_NEWEST = "select max(recorded_at) from event where merchant_id = %s"
_TILE = 256


def newest(store: Storefront, merchant: Merchant) -> datetime:
    """Returns when a merchant's newest event was recorded, by the clock that the test has moved."""
    at: datetime = execute(url_of(store.settings), _NEWEST, merchant.merchant_id)[0][0]
    return at.astimezone(UTC)


def soon() -> datetime:
    """Returns a time before which everything is that a test has made."""
    return datetime.now(UTC) + timedelta(days=400)


async def fill(store: Storefront, name: str) -> Merchant:
    """Returns a merchant with objects of every kind, and events of another application that fill the last tile."""
    merchant = await store.register()
    await objects_of(merchant, name)
    await fill_tile(store, merchant)
    return merchant


async def sold(store: Storefront, orders: int = 3) -> Merchant:
    """Returns a merchant with paid orders in a sealed log."""
    merchant = await store.register()
    for number in range(orders):
        assert (await merchant.create(paid_order(externalId=f"sold-{number}"))).status_code == 201
    await fill_tile(store, merchant)
    return merchant


async def fill_tile(store: Storefront, merchant: Merchant) -> None:
    """Appends events until the last one of before is in a full tile, and seals the log."""
    append(url_of(store.settings), merchant.merchant_id, _TILE, at=newest(store, merchant).isoformat())
    await seal(store.settings)


async def archived(store: Storefront, merchant: Merchant, before: datetime | None = None) -> Archived:
    url = url_of(store.settings)
    return await archive_events(store.settings, url, before or soon(), merchant_id=merchant.merchant_id)


def count(store: Storefront, merchant: Merchant, query: str = REFERENCES) -> int:
    found: int = execute(url_of(store.settings), query, merchant.merchant_id)[0][0]
    return found


def orders_of(store: Storefront, merchant: Merchant) -> list[tuple[UUID, int]]:
    """Returns the ids and versions of a merchant's orders."""
    return execute(url_of(store.settings), _IDS, merchant.merchant_id)


def files_of(store: Storefront, merchant: Merchant) -> list[Path]:
    """Returns the files of a merchant's archived events."""
    return sorted((store.settings.data_dir / "files/archive" / str(merchant.merchant_id)).glob("*"))


def paths_of(store: Storefront, merchant: Merchant) -> list[str]:
    """Returns addresses whose answers follow from the log: details, histories, explanations, the past, and proofs."""
    now = newest(store, merchant)
    at = now.isoformat().replace("+00:00", "Z")
    paths = [f"{ORDERS}?limit=50", f"{ORDERS}?asOf={at}", "/api/v1/events?limit=1000", "/api/v1/log/checkpoint"]
    paths += ["/api/v1/log/tile/0/000", "/api/v1/log/tile/entries/000"]
    paths += [f"/api/v1/log/entries/{position}/proof" for position in (1, 2, 30, 100)]
    paths.append(f"/api/v1/invoices/month-end?month={now:%Y-%m}")
    for order_id, version in orders_of(store, merchant):
        one = f"{ORDERS}/{order_id}"
        paths += [one, f"{one}/events", f"{one}/explain?field=status", f"{one}?asOf={at}"]
        paths += [f"{one}?version={each}" for each in range(1, version + 1)]
    return paths


async def answers(merchant: Merchant, paths: list[str]) -> dict[str, tuple[int, bytes]]:
    """Returns the answers of addresses. A refusal's has the id of its request."""

    async def answer(path: str) -> tuple[int, bytes]:
        found: httpx.Response = await merchant.get(path, **{"x-request-id": "any"})
        return found.status_code, found.content

    return dict(zip(paths, await asyncio.gather(*map(answer, paths)), strict=True))


async def computed(settings: Settings, merchant_id: UUID) -> dict[str, Any]:
    """Returns what commands compute from a merchant's whole log: the export, the audit, and the read models."""
    url = settings.database_url
    assert url is not None
    lines: list[bytes] = []
    exported = await export_events(settings, lines.append, merchant_id=merchant_id, first=1)
    report = audit(settings, url, merchant_id)
    rebuilt = await rebuild(url, log_reader(settings, url), tables=NAMES, merchant_id=merchant_id, writes=False)
    timeless = structs.replace(report, seconds=0, snapshot_at=datetime(2026, 1, 1, tzinfo=UTC))
    return {
        "export": (exported, lines),
        "audit": msgspec.json.encode(timeless),
        "rebuild": rebuilt,
        "clean": report.is_clean and not rebuilt.differs,
    }
