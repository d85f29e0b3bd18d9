"""The metrics of all processes of a service, read over HTTP while some are killed."""

from __future__ import annotations

import asyncio
import sys
from random import Random

import pytest
from campaigns.chaos import bodies
from campaigns.chaos.service import Service
from campaigns.chaos.wire import Lost, NotSent, Wire
from prometheus_client.parser import text_string_to_metric_families

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


async def ask(service: Service, method: str, path: str, key: str = "", body: bytes | None = None) -> str:
    """Returns an answer on a new connection, from any process."""
    while True:
        wire = Wire()
        try:
            await wire.open(service.port)
            return (await wire.ask(method, path, key, body)).body.decode()
        except (NotSent, Lost):
            await asyncio.sleep(0.05)
        finally:
            await wire.close()


async def metrics(service: Service) -> dict[tuple[str, ...], float]:
    text = await ask(service, "GET", "/metrics")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def began(found: dict[tuple[str, ...], float]) -> dict[str, float]:
    """Returns when each process began."""
    return {name[1]: at for name, at in found.items() if name[0] == "ledger_process_start_time_seconds"}


async def test_totals_cover_every_process_and_outlive_each_of_them():
    created = ("ledger_http_requests_total", "201", "POST", bodies.ORDERS, "2xx")
    with Service() as service:
        service.start()
        merchant = service.merchant("Figures")
        for n in range(12):
            await ask(service, "POST", bodies.ORDERS, merchant.api_key, bodies.create(f"a{n}", 1000, None, "ana"))
        await asyncio.sleep(3)  # the second in which a process that is killed loses its counts
        before = await metrics(service)
        assert before[created] == 12
        assert {labels[1] for labels in before if labels[0] == "ledger_journal_up"} == {"api-0", "api-1", "worker-2"}
        service.kill_parts(Random(1))
        for n in range(12):
            await ask(service, "POST", bodies.ORDERS, merchant.api_key, bodies.create(f"b{n}", 1000, None, "ana"))
        async with asyncio.timeout(60):
            while len(began(before).items() - began(await metrics(service)).items()) < 2:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.1)
            while (after := await metrics(service))[created] < 24:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.1)
        assert after[created] == 24
        assert began(after).keys() == began(before).keys(), "the labels are the same, the processes are not"
