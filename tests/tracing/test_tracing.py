"""Traces of the service, as a collector receives them: requests, commits, processor calls, jobs, and what joins them."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.api.bodies import by_card, card, paid_order
from tests.api.storefront import ORDERS, opened
from tests.databases import Databases
from tests.tracing.receiver import Received, Receiver

from ledger.journal.append import VersionConflict
from ledger.postgres.faults import DatabaseUnavailable
from ledger.settings import Settings
from ledger.tracing import tracing
from ledger.tracing.commits import TracedWriter

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trace.md"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CREATE = f"POST {ORDERS}"
PERSONAL = {"externalId": "ana-lopez", "firstName": "Anastasia", "lastName": "López", "email": "ana@tacuba.example"}


class Traced(Struct):
    """What a client did, and the spans that it left."""

    receiver: Receiver
    created: dict[str, Any]
    declined: dict[str, Any]
    request_id: str
    merchant_id: str

    def trace_of(self, trace: str) -> list[Received]:
        return sorted((span for span in self.receiver.spans if span.trace == trace), key=lambda span: span.begun)


@pytest.fixture(scope="module")
async def traced(databases: Databases) -> AsyncIterator[Traced]:
    with Receiver() as receiver, databases.lent() as url:
        settings = Settings(
            database_url=url, database_app_url=url, master_key="11" * 32, access_log="off", otlp_endpoint=receiver.url
        )
        async with opened(settings) as store:
            merchant = await store.register()
            body = paid_order(customer=PERSONAL, captureMethod="MANUAL")
            created = await merchant.post(ORDERS, body, traceparent=f"00-{TRACE}-{CALLER}-01")
            declined = await merchant.create(
                paid_order(externalId="order-2", paymentMethod=by_card(cardDetails=card(number="4000000000000002")))
            )
            await merchant.get(f"{ORDERS}/{created.json()['id']}?include=Tacuba")
            await merchant.post("/api/sandbox/processor", {"mode": "DOWN", "times": 1})
            away = await merchant.create(paid_order(externalId="order-3"))
            assert (created.status_code, away.status_code) == (201, 503), created.text + away.text
            moved = await merchant.post("/api/sandbox/clock", {"advanceBy": "P8D"})
            assert moved.status_code == 200, moved.text
        receiver.wait_for(CREATE, "journal commit", "journal batch", "POST /api/sandbox/clock")
        yield Traced(
            receiver, created.json(), declined.json(), created.headers["x-request-id"], str(merchant.merchant_id)
        )


async def test_a_request_continues_its_clients_trace(traced: Traced) -> None:
    request = next(span for span in traced.receiver.named(CREATE) if span.trace == TRACE)
    assert (request.parent, request.failed) == (CALLER, False)
    assert request.attributes["ledger.request_id"] == traced.request_id
    assert request.attributes["ledger.merchant_id"] == traced.merchant_id
    assert request.attributes["http.response.status_code"] == 201
    others = {span.trace for span in traced.receiver.named(CREATE)} - {TRACE}
    assert len(others) == 2


async def test_an_order_by_card_is_a_commit_a_call_and_a_commit(traced: Traced) -> None:
    request, *inside = traced.trace_of(TRACE)
    assert [span.name for span in inside] == ["journal commit", "processor authorize", "journal commit"]
    assert {span.parent for span in inside} == {request.id}
    assert {span.attributes["ledger.stream_id"] for span in inside} == {traced.created["id"]}
    assert inside[1].attributes["ledger.payment_id"] == traced.created["payments"][0]["id"]
    assert inside[1].attributes["ledger.answer"] == "Approved"


async def test_a_batch_and_its_commands_are_linked_both_ways(traced: Traced) -> None:
    batches, commits = traced.receiver.named("journal batch"), traced.receiver.named("journal commit")
    forth = {(batch.context, command) for batch in batches for command in batch.links}
    back = {(batch, commit.context) for commit in commits for batch in commit.links}
    assert back == forth
    assert {commit.context for commit in commits} == {command for _, command in forth}
    assert all(batch.parent == "" and batch.attributes["ledger.commands"] == len(batch.links) for batch in batches)


async def test_a_decline_is_an_answer_and_a_processor_that_is_away_a_failure(traced: Traced) -> None:
    calls = {span.attributes.get("ledger.answer"): span for span in traced.receiver.named("processor authorize")}
    assert (calls["Declined"].failed, calls["Declined"].attributes["ledger.decline_code"]) == (
        False,
        traced.declined["declineCode"],
    )
    assert (calls[None].failed, calls[None].attributes["error.type"]) == (True, "ProcessorUnavailable")
    refused = next(span for span in traced.receiver.named(CREATE) if span.id == calls[None].parent)
    assert (refused.failed, refused.attributes["ledger.error_code"]) == (True, "PROCESSOR_UNAVAILABLE")


async def test_a_job_has_a_span_with_its_commits(traced: Traced) -> None:
    jobs = [span for span in traced.receiver.spans if span.name.startswith("job ")]
    job = next(span for span in jobs if span.attributes["ledger.stream_id"] == traced.created["id"])
    assert "journal commit" in {span.name for span in traced.receiver.spans if span.parent == job.id}
    assert job.attributes["ledger.merchant_id"] == traced.merchant_id


async def test_no_span_holds_personal_data(traced: Traced) -> None:
    held = json.dumps([[span.name, span.attributes] for span in traced.receiver.spans], ensure_ascii=False)
    for value in (*PERSONAL.values(), "4242424242424242", "Puebla", "order-1", "Tacuba"):
        assert value not in held


async def test_the_page_lists_each_span_and_each_attribute(traced: Traced) -> None:
    page = PAGE.read_text()
    kinds = {
        re.sub(r"^[A-Z]+ /.*", "METHOD route", re.sub(r"^job .*", "job KIND", each.name))
        for each in traced.receiver.spans
    }
    kinds = {re.sub(r"^processor \w+", "processor CALL", kind) for kind in kinds}
    assert set(re.findall(r"^\| `([A-Za-z]+ [A-Za-z]+)` \|", page, re.MULTILINE)) == kinds
    named = {name for each in traced.receiver.spans for name in each.attributes}
    assert named | {"ledger.conflict"} == set(re.findall(r"`((?:ledger|http|error)\.[a-z_.]+)`", page))


async def test_a_conflict_is_no_failure_and_a_lost_database_is_one() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("test")
    writer = TracedWriter(tracer, "")
    for number, fault in enumerate([VersionConflict(UUID(int=1)), DatabaseUnavailable("away")]):
        future = asyncio.get_running_loop().create_future()
        future.set_exception(fault)
        writer._spans[number] = tracer.start_span("journal commit")
        writer._end(number, future)
    conflict, lost = spans.get_finished_spans()
    assert (conflict.status.status_code, conflict.attributes) == (
        StatusCode.UNSET,
        {"ledger.conflict": "VersionConflict"},
    )
    assert (lost.status.status_code, lost.attributes) == (StatusCode.ERROR, {"error.type": "DatabaseUnavailable"})


async def test_a_collector_that_is_away_delays_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_STOP_MAX_S", 0.05)
    settings = Settings(
        database_url=database_url, database_app_url=database_url, master_key="11" * 32, access_log="off"
    )
    async with opened(replace(settings, otlp_endpoint="http://127.0.0.1:9")) as store:
        merchant = await store.register()
        assert (await merchant.create(paid_order())).status_code == 201
    for thread in threading.enumerate():  # they must not run beside the next test
        if thread.name.startswith("OtelBatch"):
            thread.join(60)
