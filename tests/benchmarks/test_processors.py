"""The bare client sends what the adapter sends, and the benchmark of processors measures what it reports."""

from __future__ import annotations

import re
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from benchmarks.load.authorizations import AuthorizationPlan, ByAdapter, ByClient
from benchmarks.load.stripe_answers import KEY
from benchmarks.suites import processors
from tests.processors.stripe.double import Double

from ledger.settings import read_settings

# What is new in each request: ids of the ledger and of Stripe.
_NEW = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|pi_\w+")


def sent(double: Double, numbers: slice) -> list[Any]:
    """The requests that came, with every id replaced."""
    requests, headers = double.requests[numbers], double.headers[numbers]
    return [
        [
            method,
            _NEW.sub("*", path),
            [(name, _NEW.sub("*", value)) for name, value in form.items()],
            sorted((name.lower(), _NEW.sub("*", value)) for name, value in its.items()),
        ]
        for (method, path, form), its in zip(requests, headers, strict=True)
    ]


@pytest.mark.anyio
async def test_the_bare_client_sends_the_requests_of_the_adapter() -> None:
    double = Double()
    double.key = KEY
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", double.serve)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        plan = AuthorizationPlan(url=url, by="client", in_flight=1, seconds=1)
        for caller in (ByAdapter(plan), ByClient(plan)):
            await caller.authorize()
            await caller.close()
    assert len(double.requests) == 4
    assert sent(double, slice(0, 2)) == sent(double, slice(2, None))


@pytest.mark.long
def test_payments_and_the_reads_beside_them_succeed(database_url, tmp_path, monkeypatch):
    monkeypatch.setattr(processors, "PAYMENTS", 20)
    settings = read_settings({"LEDGER_DATABASE_URL": database_url, "LEDGER_DATA_DIR": str(tmp_path)})
    with processors.answering() as stripe:
        adapter = processors.adapter_report(stripe, 0.3, 1)
        reads = processors.reads_report(stripe, database_url, settings, tmp_path, 0.5, 1)
    for report in (adapter, reads):
        assert [name for name, one in report.samples.items() if one.others or not one.done] == []
    assert len(adapter.samples) == 4
    assert len(reads.samples) == 7
    assert len(reads.ratios) == 3
