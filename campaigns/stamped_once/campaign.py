"""Documents are stamped while processes are killed: each exactly once at the provider, none missing, in order.

Two merchants share a service of which the worker, Postgres or all processes are killed with SIGKILL, in turn, while the
provider answers. The provider answers the first one always. For the second one it is down until calls were sent in vain, and refuses until a refusal is recorded.

Kill by what the provider has recorded, never by the clock: every kill then finds a document under way.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import psycopg
from msgspec import Struct

from campaigns.chaos import bodies
from campaigns.chaos.clients import Merchant
from campaigns.chaos.evidence import MerchantEvidence, gather
from campaigns.chaos.rules import views_follow_from_the_log
from campaigns.chaos.service import Service
from campaigns.chaos.wire import Lost, NotSent, Wire
from campaigns.stamped_once.comparison import Movement, Recorded, Totals, Wanted, compare
from ledger.invoicing.files import FOLDER

_PATIENCE_S: Final = 120.0
_SETTINGS: Final = {
    "LEDGER_SANDBOX_DELAY_MS": "60", "LEDGER_PROCESSOR_TIMEOUT_S": "2.0", "LEDGER_NOT_FOUND_FINAL_S": "3.0",
}  # fmt: skip
"""How long the provider takes from a stamp to its answer: most kills fall into that time."""

_FISCAL: Final = {
    "taxId": "URE180429TM6",
    "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
    "taxSystem": "601",
    "cfdiUse": "G03",
    "zipCode": "86991",
}
_CARD: Final = {
    "billingAddress": {"country": "MX"},
    "paymentMethod": {
        "type": "card",
        "cardDetails": {"number": "4242424242424242", "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"},
    },
}

# The provider's own record, in the order of its commits: one row for each stamp that it made.
_WITNESS: Final = """
create table stamp_record (
  n bigserial primary key, merchant_id uuid not null, document_id uuid not null, fiscal_uuid uuid not null,
  xml bytea not null);
create function record_stamp() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into stamp_record (merchant_id, document_id, fiscal_uuid, xml)
  values (new.merchant_id, new.document_id, new.fiscal_uuid, new.xml);
  return null;
end $$;
create trigger record_stamp after insert on sandbox_stamp for each row when (new.xml is not null)
  execute function record_stamp();
"""
# The jobs of a killed worker are taken over once its heartbeat is fifteen seconds old: no need to wait for that here.
_FORGET_WORKERS: Final = """
update public_jobs.procrastinate_workers set last_heartbeat = last_heartbeat - interval '1 minute'
"""
_STAMPING: Final = "/api/sandbox/stamping"
_COUNT: Final = "select count(*) from stamp_record where merchant_id = %s"
_RECORD: Final = "select merchant_id, document_id, fiscal_uuid, xml from stamp_record order by n"
_OPEN: Final = "select count(*) from payment_order where call_deadline_at is not null"
_ABANDONED: Final = "select count(*) from event where merchant_id = %s and topic = 'stamping-abandoned.v1'"
_REFUSED: Final = "select count(*) from event where merchant_id = %s and topic = 'document-refused.v1'"


class Plan(Struct, frozen=True, kw_only=True):
    """The size of a campaign: the orders of each merchant, and how often something is killed."""

    orders: int = 40
    kills: int = 20


class Result(Struct, frozen=True, kw_only=True):
    """What a campaign found, how often something was killed, and how many seconds it took."""

    violations: list[str]
    totals: Totals
    kills: int
    abandoned: int
    refused: int
    seconds: float


DOCUMENTS: Final = 8
"""The documents of an order: an invoice, three receipts and two credit notes."""


class Collected(Struct, frozen=True, kw_only=True):
    """What the client, the provider and the log have of a campaign. `files` is the folder of the stored documents."""

    wanted: list[Wanted]
    record: list[Recorded]
    evidence: list[MerchantEvidence]
    files: Path
    kills: int
    abandoned: int
    refused: int


async def run(plan: Plan) -> Result:
    """Runs a plan on a service of its own, and compares what it left."""
    began = time.monotonic()
    async with collected(plan) as found:
        violations, totals = compare(found.wanted, found.record, found.evidence, found.files)
        for merchant in found.evidence:
            violations += views_follow_from_the_log(merchant)
    return Result(
        violations=violations,
        totals=totals,
        kills=found.kills,
        abandoned=found.abandoned,
        refused=found.refused,
        seconds=time.monotonic() - began,
    )


@asynccontextmanager
async def collected(plan: Plan) -> AsyncIterator[Collected]:
    """Runs a plan on a service of its own, and yields what it left; its files exist until the end of the block."""
    with Service(workers=1, settings=_SETTINGS) as service:
        service.start()
        with service.database() as url:
            pass  # the service's own server: its address stays the same
        async with _Record(url) as record:
            await record.execute(_WITNESS)
            steady, troubled = service.merchant("Steady"), service.merchant("Troubled")
            await _ask(service, troubled, _STAMPING, {"mode": "DOWN"})
            trade = asyncio.gather(
                *[_trade(service, merchant, n) for n in range(plan.orders) for merchant in (steady, troubled)]
            )
            kills = await _kill(service, record, steady, plan)
            wanted = await trade
            for mode, happened in (("DOWN", _ABANDONED), ("REFUSE", _REFUSED)):
                await _ask(service, troubled, _STAMPING, {"mode": mode})
                await _until(service, record, happened, troubled)
            await _ask(service, troubled, _STAMPING, {"mode": "OK"})
            await _finish(service, record, [steady, troubled], plan.orders * DOCUMENTS)
            yield Collected(
                wanted=wanted,
                record=[Recorded(*row) for row in await record.rows(_RECORD)],
                evidence=await gather(url),
                files=service.data_dir / FOLDER,
                kills=kills,
                abandoned=await record.count(_ABANDONED, troubled),
                refused=await record.count(_REFUSED, troubled),
            )


class _Record:
    """What the database has, on a connection that is opened again after each kill."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def execute(self, query: str) -> None:
        """Executes a statement that may be executed again."""
        await self._cursor(query)

    async def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return await (await self._cursor(query, *values)).fetchall()

    async def count(self, query: str, merchant: Merchant | None = None) -> int:
        ((number,),) = await self.rows(query, *(() if merchant is None else (merchant.merchant_id,)))
        return int(number)

    async def _cursor(self, query: str, *values: object) -> psycopg.AsyncCursor[Any]:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                if self._connection is None:
                    self._connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
                return await self._connection.execute(query.encode(), values or None)
            except psycopg.OperationalError:
                await self._close()
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.05)

    async def _close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


async def _trade(service: Service, merchant: Merchant, n: int) -> Wanted:
    """Takes three payments of an order and gives back two parts; returns what needs a document, in order."""
    name = f"cfdi-{n}"
    path = f"{bodies.ORDERS}/{name}"
    made = await _ask(
        service,
        merchant,
        bodies.ORDERS,
        {
            "externalId": name,
            "amount": 100_000,
            "currency": "MXN",
            "customer": {"externalId": "ana"},
            "pending": True,
            "allowPartials": True,
            "customerFiscalData": _FISCAL,
        },
    )
    movements: list[Movement] = []

    async def pay(amount: int) -> str:
        body = {"amount": amount, "externalId": f"{name}/{len(movements)}", **_CARD}
        payment = (await _ask(service, merchant, f"{path}/payments", body))["payment"]
        movements.append(Movement("REP", payment["id"], amount))
        return str(payment["id"])

    async def refund(payment_id: str, amount: int) -> None:
        body = {"amount": amount, "paymentId": payment_id, "reason": "defecto", "externalId": f"{len(movements)}"}
        await _ask(service, merchant, f"{path}/refund", body)
        movements.append(Movement("CREDIT_NOTE", payment_id, amount))

    first = await pay(30_000 + n)
    await refund(first, 5_000)
    second = await pay(40_000)
    await refund(second, 10_000 + n)
    third = await pay(45_000)
    # The receipts have reached the invoice: what credit notes took back of it is invoiced once more.
    regular = 100_000 - 70_000 - n
    movements[-1:] = [
        Movement("REP", third, regular),
        Movement("INVOICE", third, 45_000 - regular),
        Movement("REP", third, 45_000 - regular),
    ]
    return Wanted(merchant.merchant_id, made["id"], tuple(movements))


async def _kill(service: Service, record: _Record, merchant: Merchant, plan: Plan) -> int:
    """Kills a part of the service each time the provider has stamped more documents; returns how often."""
    kills, until = 0, time.monotonic() + _PATIENCE_S
    seen = 0
    while kills < plan.kills and time.monotonic() < until:
        stamped = await record.count(_COUNT, merchant)
        if stamped >= plan.orders * DOCUMENTS:
            break
        if stamped > seen:
            seen = stamped + 1  # at least one document is stamped between two kills
            kills += await _STRIKES[kills % len(_STRIKES)](service)
            await record.execute(_FORGET_WORKERS)
        await asyncio.sleep(0.005)
    return kills


async def _kill_worker(service: Service) -> bool:
    workers = [pid for pid, role in service.roles().items() if role == "worker"]
    with suppress(ProcessLookupError):
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        return bool(workers)
    return False


async def _kill_postgres(service: Service) -> bool:
    """Kills the postmaster alone: the service restarts it."""
    service.kill_postgres()
    return True


async def _kill_service(service: Service) -> bool:
    """Kills every process but Postgres, which stops by itself, and starts the service again."""
    service.kill_group()
    service.spawn()
    await asyncio.to_thread(service.wait_ready)
    return True


_STRIKES: Final = (_kill_worker, _kill_postgres, _kill_service)


async def _finish(service: Service, record: _Record, merchants: list[Merchant], documents: int) -> None:
    """Moves the merchants' clocks over the pauses until each has all of its documents and no call is open.

    Returns even if that does not come to pass: the comparison then names what is missing.
    """
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        missing = [each for each in merchants if await record.count(_COUNT, each) < documents]
        if not missing and await record.count(_OPEN) == 0:
            return
        move = {"advanceBy": "PT10M"}
        await asyncio.gather(*[_ask(service, each, "/api/sandbox/clock", move) for each in missing])
        await asyncio.sleep(0.1)


async def _ask(service: Service, merchant: Merchant, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Sends a request until it succeeds: every one of them may be sent again. Raises AssertionError on a refusal."""
    wire, until, last = Wire(timeout_s=30.0), time.monotonic() + _PATIENCE_S, ""
    while time.monotonic() < until:
        try:
            await wire.open(service.port)
            answer = await wire.ask("POST", path, merchant.api_key, json.dumps(body).encode())
        except (NotSent, Lost) as fault:
            last = repr(fault)
            await asyncio.sleep(0.1)
            continue
        if answer.status in {200, 201}:
            await wire.close()
            return dict(json.loads(answer.body))
        assert answer.status in {409, 503}, f"{path}: {answer.status} {answer.body!r}"
        last = f"{answer.status} {answer.body!r}"
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} was not answered within {_PATIENCE_S} s; last: {last}")


async def _until(service: Service, record: _Record, count: str, merchant: Merchant) -> None:
    """Moves the merchant's clock over the pauses until what is counted has happened once. Raises AssertionError."""
    until = time.monotonic() + _PATIENCE_S
    while not await record.count(count, merchant):
        assert time.monotonic() < until, "what was to happen has not"
        await _ask(service, merchant, "/api/sandbox/clock", {"advanceBy": "PT10M"})
        await asyncio.sleep(0.1)
