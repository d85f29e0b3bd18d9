"""Which figures the service tells of itself, and how each part's own counts become them.

The rule a stranger would break: a figure names routes, parts and outcomes, never a merchant, an order or a person. What
stands in `FAMILIES` is a promise to dashboards: names and meanings stay.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from ledger.telemetry.histogram import SECONDS, SIZES, Histogram
from ledger.telemetry.shared_metrics import MetricSample, SharedMetrics

if TYPE_CHECKING:
    pass  # brings uvicorn along, which the worker does not need

_STARTED: Final = time.time()


class Family(Struct, frozen=True):
    """What a figure means. One that is `each`'s own is told for every process apart, with the process as a label."""

    kind: Literal["counter", "gauge", "histogram"]
    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    each: bool = False


FAMILIES: Final = {
    "ledger_http_requests_total": Family("counter", "Requests answered.", ("method", "route", "status")),
    "ledger_http_request_seconds": Family("histogram", "From head to answer.", ("method", "route"), SECONDS),
    "ledger_http_rate_limited_total": Family("counter", "Requests refused by a key's rate limit."),
    "ledger_http_connections": Family("gauge", "Connections of clients that are open."),
    "ledger_http_connections_total": Family("counter", "Connections accepted."),
    "ledger_http_connections_ended_total": Family(
        "counter", "Connections that were not left to the client, by reason.", ("reason",)
    ),
    "ledger_journal_batch_commands": Family("histogram", "Commands in a commit.", (), SIZES),
    "ledger_journal_commit_seconds": Family("histogram", "From sending a batch to its commit.", (), SECONDS),
    "ledger_journal_queue_commands": Family("gauge", "Commands that wait for the journal."),
    "ledger_journal_conflicts_total": Family("counter", "Commands that met a newer version or a taken key."),
    "ledger_journal_bisected_total": Family("counter", "Batches halved to find the command that the database refused."),
    "ledger_journal_up": Family("gauge", "Whether the process can write.", (), (), True),
    "ledger_reader_batch_keys": Family("histogram", "Point reads in a round trip.", ("reader",), SIZES),
    "ledger_database_reconnects_total": Family("counter", "Connections to the database that were lost.", ("of",)),
    "ledger_recovery_settled_total": Family("counter", "Calls to a processor whose outcome the recovery found."),
    "ledger_recovery_open": Family("gauge", "Calls to a processor without an outcome yet."),
    "ledger_recovery_overdue_seconds": Family("gauge", "How long the oldest of them has been due for a look-up."),
    "ledger_messages_waiting": Family("gauge", "Messages of processors that no order has taken in."),
    "ledger_messages_set_aside": Family("gauge", "Those of them that contradict their order: an operator decides."),
    "ledger_messages_waiting_seconds": Family("gauge", "How long the oldest of them has waited."),
    "ledger_reactions_lag_seconds": Family(
        "gauge", "How long ago everything that had been appended by then has been reacted to."
    ),
    "ledger_reactions_set_aside_merchants": Family(
        "gauge", "Merchants whose log cannot be read: nothing of theirs falls due until it can.", (), (), True
    ),
    "ledger_due_times_total": Family("counter", "Due times that came and were made jobs of."),
    "ledger_jobs_total": Family(
        "counter", "Attempts at jobs by how they ended: done, failed and to be tried again, given up.", ("outcome",)
    ),
    "ledger_process_resident_bytes": Family("gauge", "Memory.", (), (), True),
    "ledger_process_open_fds": Family("gauge", "Descriptors.", (), (), True),
    "ledger_process_cpu_seconds_total": Family("counter", "Time on a processor, user and system.", (), (), True),
    "ledger_process_loop_lag_seconds": Family("gauge", "How late the event loop was a moment ago.", (), (), True),
    "ledger_process_start_time_seconds": Family("gauge", "When the process began, in Unix time.", (), (), True),
}


def metric_sample(name: str, value: float, *labels: str) -> MetricSample:
    """A number of a family."""
    return MetricSample(name, labels, float(value))


def histogram_sample(name: str, histogram: Histogram, *labels: str) -> MetricSample:
    """A histogram of a family."""
    return MetricSample(name, labels, [*histogram.counts, histogram.total])


def process_metrics(board: SharedMetrics) -> Iterator[MetricSample]:
    """What the system knows of this process, and how late its event loop was."""
    times = os.times()
    yield metric_sample("ledger_process_cpu_seconds_total", times.user + times.system)
    yield metric_sample("ledger_process_start_time_seconds", _STARTED)
    yield metric_sample("ledger_process_loop_lag_seconds", board.lag_s)
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 - asked for every second
            pages = int(statm.read().split()[1])
        yield metric_sample("ledger_process_resident_bytes", pages * os.sysconf("SC_PAGE_SIZE"))
        yield metric_sample("ledger_process_open_fds", len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - the same
    except OSError:
        return  # only Linux tells
