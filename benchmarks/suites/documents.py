"""How fast the worker stamps the documents of paid orders at the sandbox's provider.

A document is measured from the commit of its payment to the commit of its stamp: the CFDI is built, sealed, stamped,
and stored as a file. The orders are paid faster than they are stamped, so that the worker has a backlog.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg

from benchmarks.load import commits, order_body
from benchmarks.load.limits import InsertLimit
from benchmarks.load.requests import UNIQUE
from benchmarks.measure.report import Ratio, Report
from benchmarks.measure.resources import Costs, child_of, peak_mb, resident_mb
from benchmarks.measure.samples import Sample, in_turns, ratio, sample, show_progress, typical
from benchmarks.suites.http import Service, new_merchant, service
from benchmarks.suites.journal import CLIENTS, IN_FLIGHT, per_second
from ledger.settings import CannotRun, Settings, api_processes

DOCUMENTS: Final = 300
_LOOK_S: Final = 0.5
_PATIENCE_S: Final = 900.0
_R, _CARD, _DOCUMENTS = f"R: INSERT, {CLIENTS} clients", "create with card", "documents"

RECEIVER: Final[dict[str, Any]] = {
    "customerFiscalData": {
        "taxId": "URE180429TM6",
        "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
        "taxSystem": "601",
        "cfdiUse": "G03",
        "zipCode": "86991",
    }
}
"""A receiver that the tax authority publishes for tests."""

_ENDED: Final = """
select count(*) filter (where topic = 'document-stamped.v1'),
       count(*) filter (where topic in ('document-refused.v1', 'invoicing-blocked.v1'))
  from event where merchant_id = %s
"""
_TIMES: Final = """
select extract(epoch from min(s.recorded_at) - min(p.recorded_at))::float8,
       extract(epoch from min(s.recorded_at) - min(min(p.recorded_at)) over ())::float8
  from event p join event s using (merchant_id, stream_id)
 where merchant_id = %s and p.topic = 'payment-captured.v1' and s.topic = 'document-stamped.v1' group by stream_id
"""


def report(
    url: str, settings: Settings, folder: Path, seconds: float, rounds: int, documents: int = DOCUMENTS
) -> Report:
    """Measures documents, in turn with R and with the creates over HTTP that are paid by card without a document."""
    limit = InsertLimit(url, commits.event_bytes("order"))
    with service(url, settings, folder, api_processes(settings)) as under_test:
        under_test.create(1, IN_FLIGHT, "card")
        costs = Costs(under_test.process.pid, url)
        taken = in_turns(
            rounds,
            {
                _R: partial(limit.run, CLIENTS, seconds),
                _CARD: costs.of(_CARD, partial(under_test.create, seconds, IN_FLIGHT, "card")),
                _DOCUMENTS: costs.of(_DOCUMENTS, partial(stamp, url, under_test, folder, documents)),
            },
        )
        worker = child_of(under_test.process.pid, "worker")
        memory = f"{resident_mb(worker):.0f} MB, at most {peak_mb(worker):.0f} MB"
    return Report(
        name=f"documents, {documents:,} orders paid at once",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(of=_DOCUMENTS, to=to, value=ratio(taken[_DOCUMENTS], taken[to], per_second)) for to in (_R, _CARD)
        ],
        facts={"worker, resident": memory, "cost of documents": "includes the order and its payment", **costs.facts()},
    )


def stamp(url: str, under_test: Service, folder: Path, documents: int) -> Sample:
    """Has so many orders of a new merchant paid, and waits until the worker has stamped an invoice of each.

    Raises CannotRun if a document is refused, or the last one takes longer than a quarter of an hour.
    """
    merchant = under_test.of_merchant(*new_merchant(url, folder))
    body = {**json.loads(order_body.body(f"pedido-{UNIQUE}", "card")), **RECEIVER}
    merchant.post_each(
        "/v2/payment-orders",
        json.dumps(body, ensure_ascii=False, separators=(",", ":")),
        [str(n) for n in range(documents)],
    )
    show_progress("waiting until all documents are stamped")
    until = time.monotonic() + _PATIENCE_S
    while (stamped := _stamped(url, merchant.merchant_id)) < documents:
        if time.monotonic() > until:
            raise CannotRun(f"{stamped} of {documents} documents were stamped in {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
    times = _times(url, merchant.merchant_id)
    return sample([wait for wait, _ in times], max(ended for _, ended in times))


def _stamped(url: str, merchant_id: UUID) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_ENDED, [merchant_id]).fetchone()
    assert row is not None, "an aggregate always answers"
    if row[1]:
        raise CannotRun(f"{row[1]} documents were refused")
    return int(row[0])


def _times(url: str, merchant_id: UUID) -> Sequence[tuple[float, float]]:
    """Returns the seconds from each payment to its stamp, and from the first payment of all to that stamp."""
    with psycopg.connect(url) as connection:
        return connection.execute(_TIMES, [merchant_id]).fetchall()
