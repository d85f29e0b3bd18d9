"""The metrics of the service: names, labels and meanings on which dashboards rely. prometheus_client keeps the values.

The processes of one service share their values through files (the library's multiprocess mode), so that any of them
answers for all. A file is named after the place of its process ("api-0"): a process that replaces another one continues
its counters.

Never label a metric with a merchant, an order or a person.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ledger.telemetry.shared_values import shared_values

SHARED_DIRECTORY: Final = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
"""The directory in which the processes of one service keep their shared counts; None in a process that runs alone."""

PROCESS: Final = os.environ.get("PROMETHEUS_MULTIPROC_PROCESS", "api-0")
"""The place of this process in its service: its role and a number. Two processes that run at once have different
ones.
"""

SAMPLE_S: Final = 1.0
_BEGAN: Final = time.time()
SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CALL_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)

REGISTRY: Final = CollectorRegistry()

# The library takes a gauge x and a counter x_total for one metric, so one of the two has another name inside.
_OPEN_CONNECTIONS: Final = "ledger_http_open_connections"

if SHARED_DIRECTORY:
    # The library would name the files after process ids: a file more for each replaced process.
    values.ValueClass = shared_values(lambda: PROCESS)

_counter = partial(Counter, registry=REGISTRY)
_gauge = partial(Gauge, registry=REGISTRY, multiprocess_mode="sum")
_histogram = partial(Histogram, registry=REGISTRY)


class LabelCache(dict[tuple[str, ...], Any]):
    """The histograms of a metric by the values of its labels. The library's own look-up takes 1.5 µs."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> Any:
        found = self[labels] = self._metric.labels(*labels)
        return found


def value_of(counter: Counter) -> Any:
    """Returns the value of a counter that has its labels: its `inc(amount)` takes half the time of the counter's own,
    which first looks whether there are labels, and whether the amount is negative.
    """
    return counter._value  # noqa: SLF001 - tests/telemetry/test_shared_values.py relies on it too


class CounterCache(dict[tuple[str, ...], Any]):
    """The values of a counter by its labels (see `value_of`)."""

    def __init__(self, metric: Counter) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> Any:
        found = self[labels] = value_of(self._metric.labels(*labels))
        return found


class AskedGauge(Collector):
    """A gauge whose value the database knows. `GET /metrics` asks for it; None while the database does not answer."""

    def __init__(self, name: str, about: str) -> None:
        self._name, self._about = name, about
        self.value: float | None = None
        REGISTRY.register(self)

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(self._name, self._about, self.value)


class AskedGauges(Collector):
    """Gauges by the values of labels, which the database knows, like `AskedGauge`."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self._name, self._about = name, about
        self._labelnames = labels
        self.value: Mapping[tuple[str, ...], float] | Mapping[str, float] | None = None
        REGISTRY.register(self)

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._about, labels=self._labelnames)
        for labels, value in sorted((self.value or {}).items()):
            family.add_metric((labels,) if isinstance(labels, str) else labels, value)
        yield family


class _Build(Collector):
    """The build information: always 1, with the program's version as a label."""

    _labelnames = ("version",)

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("ledger_build_info", "1, with the version of the program.", labels=self._labelnames)
        family.add_metric((version("payment-ledger"),), 1.0)
        yield family


REGISTRY.register(_Build())
REQUESTS = _counter(
    "ledger_http_requests_total",
    "Requests answered, by class of status (2xx) and by status code; both are none where the client left earlier.",
    ("method", "route", "status", "code"),
)
REQUEST_SECONDS = _histogram(
    "ledger_http_request_seconds",
    "Seconds from the head of a request to its answer.",
    ("method", "route"),
    buckets=SECONDS,
)
RATE_LIMITED = _counter("ledger_http_rate_limited_total", "Requests refused by a key's rate limit.")
CONNECTIONS = _gauge(_OPEN_CONNECTIONS, "Open connections of clients.")
CONNECTIONS_ACCEPTED = _counter("ledger_http_connections_total", "Connections of clients accepted.")
CONNECTIONS_ENDED = _counter(
    "ledger_http_connections_ended_total", "Connections of clients that the service ended, by reason.", ("reason",)
)
BATCH_COMMANDS = _histogram("ledger_journal_batch_commands", "Commands in one commit.", buckets=SIZES)
COMMIT_SECONDS = _histogram(
    "ledger_journal_commit_seconds", "Seconds from sending a batch to its commit.", buckets=SECONDS
)
COMMIT_AGE_SECONDS = _gauge(
    "ledger_journal_oldest_commit_seconds",
    "Seconds for which the oldest commit in flight has been in flight; 0 if there is none.",
    ("process",),
)
COMMIT_AGES = _histogram(
    "ledger_journal_commits_in_flight_seconds",
    "Seconds for which the oldest commit had been in flight, once a second while there was one.",
    buckets=SECONDS,
)
QUEUE_COMMANDS = _gauge("ledger_journal_queue_commands", "Commands that wait for the journal.")
CONFLICTS = _counter(
    "ledger_journal_conflicts_total",
    "Commands that met a newer version of their stream or a key that was already claimed.",
)
BISECTED = _counter("ledger_journal_bisected_total", "Batches halved to find the command that the database refused.")
JOURNAL_UP = _gauge("ledger_journal_up", "1 where the process can write to the journal, else 0.", ("process",))
READER_BATCH_KEYS = _histogram(
    "ledger_reader_batch_keys", "Point reads in one round trip to the database.", ("reader",), buckets=SIZES
)
RECONNECTS = _counter("ledger_database_reconnects_total", "Connections to the database that were lost.", ("of",))
SETTLED = _counter("ledger_recovery_settled_total", "Calls to a processor whose outcome the recovery found.")
REPEATED = _counter(
    "ledger_recovery_repeated_total", "Calls that never reached a processor and that the recovery sent again."
)
CONTRADICTIONS = _counter(
    "ledger_processor_contradictions_total",
    "Effects that a processor reported of calls that the ledger had settled otherwise, by the event that records them.",
    ("kind",),
)
RECONCILIATION_DIFFERENCES = _counter(
    "ledger_reconciliation_differences_total",
    "Captures, refunds, voids and lines of payouts about which the log and a processor differed: by what differs, by the "
    "side that lacked it, and by whether the log has it now.",
    ("kind", "missing_in", "repaired"),
)
RECONCILIATION_UNREACHABLE = _counter(
    "ledger_reconciliation_unreachable_total",
    "Comparisons of an account that could not be read. Each is made again after an hour, until the account answers.",
)
RECONCILIATION_UNREAD = _counter(
    "ledger_reconciliation_unread_total",
    "Orders that a comparison with the processors left out, because their events could not be read.",
)
OPEN_CALLS = AskedGauge("ledger_recovery_open", "Calls to a processor without an outcome yet.")
OVERDUE_SECONDS = AskedGauge(
    "ledger_recovery_overdue_seconds",
    "Seconds for which the oldest call without an outcome has been due for a look-up.",
)
OLDEST_CALL_SECONDS = AskedGauge(
    "ledger_recovery_oldest_seconds", "Seconds since the oldest call without an outcome was announced."
)
MESSAGES = AskedGauge(
    "ledger_messages_waiting",
    "Messages of processors that no order has recorded; those that no order matches, for LEDGER_UNMATCHED_ALARM_S.",
)
MESSAGES_SET_ASIDE = AskedGauge(
    "ledger_messages_set_aside", "Unrecorded messages that contradict their order: an operator has to decide."
)
MESSAGES_SECONDS = AskedGauge(
    "ledger_messages_waiting_seconds", "Seconds for which the oldest of these messages has waited."
)
LAG_SECONDS = AskedGauge(
    "ledger_reactions_lag_seconds", "Seconds since the time up to which all appended events have been reacted to."
)
QUARANTINED = _gauge(
    "ledger_reactions_set_aside_merchants",
    "Merchants whose log cannot be read: their timers do not run until it can.",
    ("process",),
)
LOG_SEALED = _counter("ledger_log_sealed_total", "Events that were added to the Merkle trees of merchants' logs.")
LOG_CHANGED = _gauge(
    "ledger_log_changed_merchants",
    "Merchants whose log has no further checkpoint, because what a checkpoint has of it was changed or removed.",
    ("process",),
)
CHECKPOINT_FILES = _counter(
    "ledger_checkpoint_files_total",
    "Files of signed checkpoints that a worker wrote outside the database: written, failed. A failed one is written later.",
    ("outcome",),
)
AUDIT_VIOLATIONS = AskedGauge(
    "ledger_audit_violations",
    "Violations that the newest audit of each merchant found that was asked for over HTTP, of all merchants together.",
)
AUDIT_AGE_SECONDS = AskedGauge(
    "ledger_audit_age_seconds", "Seconds since the last of these audits ended; no value before the first one."
)
CARDS_OPENED = _counter(
    "ledger_vault_cards_opened_total",
    "Saved card numbers that a payment's call asked of the vault, by outcome: opened, missing, broken.",
    ("outcome",),
)
STAMPS = _counter("ledger_stamps_total", "Answers of the stamping provider: stamped, refused.", ("outcome",))
RECEIPTS_NEAR_DEADLINE = _counter(
    "ledger_receipts_near_deadline_total",
    "Captured payments that lacked a stamped payment receipt two days before its legal deadline.",
)
REMINDERS = _counter(
    "ledger_reminders_total",
    "Reminders of due dates: sent, postponed because the mail server did not accept them, dropped.",
    ("outcome",),
)
DOCUMENT_MAILS = _counter(
    "ledger_document_mails_total",
    "Messages with stamped documents: sent, postponed because the mail server did not accept them, dropped.",
    ("outcome",),
)
SUBSCRIPTION_NOTICES = _counter(
    "ledger_subscription_notices_total",
    "Messages to customers of subscriptions: sent, postponed because the mail server did not accept them, dropped.",
    ("outcome",),
)
WEBHOOK_ENDPOINTS = AskedGauges(
    "ledger_webhook_endpoints",
    "Webhook endpoints of all merchants by status, without those that were deleted.",
    "status",
)
WEBHOOK_WAITING = AskedGauge(
    "ledger_webhook_waiting",
    "Events that wait for an enabled endpoint: those that it has not been sent yet, and deliveries before their next attempt.",
)
WEBHOOK_WAITING_SECONDS = AskedGauge(
    "ledger_webhook_waiting_seconds", "Seconds for which the oldest of these has waited, in real time."
)
WEBHOOKS_DISABLED = _counter(
    "ledger_webhook_endpoints_disabled_total",
    "Webhook endpoints that were disabled because of their receivers: GONE for 410, FAILING for five days.",
    ("reason",),
)
WEBHOOK_ALERTS = _counter(
    "ledger_webhook_alerts_total",
    "E-mails to merchants about disabled endpoints: sent, postponed because the mail server did not accept them, dropped.",
    ("outcome",),
)
WEBHOOK_ATTEMPTS = _counter(
    "ledger_webhook_attempts_total",
    "Attempts to deliver an event to a merchant's endpoint, by outcome: DELIVERED, else why it failed.",
    ("outcome",),
)
DUE_TIMES = _counter("ledger_due_times_total", "Due times that were reached and became jobs.")
JOBS = _counter(
    "ledger_jobs_total",
    "Attempts at jobs by outcome: done, failed and to be tried again, given up.",
    ("outcome",),
)
_PAYMENT_LABELS: Final = ("method", "currency", "processor")
ORDERS_CREATED = _counter("ledger_orders_created_total", "Payment orders created.", ("currency",))
PAYMENT_EVENTS = _counter(
    "ledger_payment_events_total",
    "Events of payments by topic, counted after their commit: payment-authorized, payment-declined, …",
    ("event", *_PAYMENT_LABELS),
)
DECLINES = _counter(
    "ledger_payment_declines_total",
    "Declined payments by decline code, other for a code that the contract lacks, and by who refused.",
    ("code", "refused_by", *_PAYMENT_LABELS),
)
CAPTURED = _counter(
    "ledger_captured_amount_total",
    "Money received, by capture, by deposit or reported late: gross of the surcharge, in minor units of the currency.",
    _PAYMENT_LABELS,
)
REFUNDED = _counter(
    "ledger_refunded_amount_total", "Money refunded, without chargebacks: gross, in minor units.", _PAYMENT_LABELS
)
CHARGED_BACK = _counter(
    "ledger_charged_back_amount_total", "Money that banks took back by lost disputes, in minor units.", _PAYMENT_LABELS
)
PROCESSOR_CALL_SECONDS = _histogram(
    "ledger_processor_call_seconds",
    "Seconds of calls to processors by outcome: done, refused, pending, action-required, not-found, not-sent, "
    "unanswered, unreadable.",
    ("processor", "operation", "outcome"),
    buckets=CALL_SECONDS,
)
ARCHIVE_FAILING_SECONDS = AskedGauge(
    "ledger_wal_archive_failing_seconds",
    "Seconds for which the database has failed to archive its write-ahead log; 0 where it succeeds or has no archive.",
)
STANDBY_MISSING = AskedGauge(
    "ledger_database_standby_missing",
    "1 where the database has fewer synchronous standbys than synchronous_standby_names needs, so that every commit "
    "waits; else 0. No value where the application's role may not see it.",
)
STANDBYS = AskedGauges(
    "ledger_database_standbys",
    "Connected standbys of the database by name: 1 for a synchronous one, 0 for another one.",
    "standby",
)
SERVICE_PROCESSES = AskedGauges(
    "ledger_service_processes",
    "Processes of all services on the database that were seen in the last thirty seconds.",
    "host",
    "role",
    "release",
)
CLOCK_AHEAD_SECONDS = _gauge(
    "ledger_clock_ahead_seconds",
    "Seconds by which the machine's clock is ahead of the database's; negative if it is behind.",
    ("process",),
)
REPLICA_USED = _gauge(
    "ledger_replica_used",
    "1 where the process lets the replica of LEDGER_READ_DATABASE_URL answer lists, 0 where the primary answers all; no "
    "value without a replica.",
    ("process",),
)
REPLICA_READS = _counter(
    "ledger_replica_reads_total",
    "Reads that a replica may answer, by outcome: answered by it; behind where it lacked what the primary showed, failed "
    "where the read failed there, and unused where it was known to be away. The primary answers all but the first.",
    ("outcome",),
)
RECORDS_UNOPENED = _counter(
    "ledger_records_unopened_total",
    "Sealed records that could not be opened, by what owns them, and by reason: missing for a sealing key that the process "
    "lacks or a key whose row is lost, broken for another one's row.",
    ("holder", "reason"),
)
STORE_FAILURES = _counter(
    "ledger_store_failures_total",
    "Requests to the store of files, checkpoints or archived events that failed or had no answer in time.",
    ("files",),
)
FILES_MISSING = _counter(
    "ledger_files_missing_total",
    "Files of stamped documents and of archived events that were read, and are missing from their store or were changed.",
)
ORDERS = AskedGauges("ledger_orders", "Payment orders of all merchants by status.", "status")
OPEN_PAYMENTS = AskedGauges(
    "ledger_payments_open",
    "Payments of all merchants that wait, by status: REQUIRES_ACTION for the payer, AUTHORIZED for a capture (in part "
    "too), PENDING_CAPTURE for the time of theirs.",
    "status",
)
ASKED = (
    OPEN_CALLS,
    OVERDUE_SECONDS,
    OLDEST_CALL_SECONDS,
    MESSAGES,
    MESSAGES_SET_ASIDE,
    MESSAGES_SECONDS,
    LAG_SECONDS,
    ARCHIVE_FAILING_SECONDS,
    STANDBY_MISSING,
)
_RESIDENT_BYTES = _gauge("ledger_process_resident_bytes", "Resident memory in bytes.", ("process",))
_OPEN_FDS = _gauge("ledger_process_open_fds", "Open file descriptors.", ("process",))
_CPU_SECONDS = _counter("ledger_process_cpu_seconds_total", "CPU time in seconds, user and system.", ("process",))
_LOOP_LAG = _gauge(
    "ledger_process_loop_lag_seconds", "Seconds by which the event loop was late a moment ago.", ("process",)
)
_STARTED = _gauge(
    "ledger_process_start_time_seconds", "The start of the process, in seconds of Unix time.", ("process",)
)


class AllProcesses(Collector):
    """Every metric, with the values of all processes of the service together."""

    def collect(self) -> Iterator[Metric]:
        found = MultiProcessCollector(None, SHARED_DIRECTORY).collect() if SHARED_DIRECTORY else ()  # type: ignore[no-untyped-call]
        shared = {family.name: family for family in found}
        for family in REGISTRY.collect():
            merged = shared.get(family.name, family)
            if merged.name == _OPEN_CONNECTIONS:
                merged = GaugeMetricFamily("ledger_http_connections", merged.documentation, merged.samples[0].value)
            yield merged


@contextmanager
def sampling(*sources: Callable[[], None]) -> Iterator[None]:
    """Keeps the gauges of this process up to date while the block runs: calls the sources, which set theirs, every
    second.
    """
    task = asyncio.create_task(_sample(sources), name="metrics")
    try:
        yield
    finally:
        task.cancel()


async def _sample(sources: tuple[Callable[[], None], ...]) -> None:
    _STARTED.labels(PROCESS).set(_BEGAN)
    late_s = counted_s = 0.0
    while True:
        times = os.times()
        _CPU_SECONDS.labels(PROCESS).inc(times.user + times.system - counted_s)
        counted_s = times.user + times.system
        _LOOP_LAG.labels(PROCESS).set(late_s)
        _sample_system()
        for source in sources:
            source()
        due = time.monotonic() + SAMPLE_S
        await asyncio.sleep(SAMPLE_S)
        late_s = max(0.0, time.monotonic() - due)


def _sample_system() -> None:
    with suppress(OSError):  # only Linux has these files
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 - called every second
            _RESIDENT_BYTES.labels(PROCESS).set(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        _OPEN_FDS.labels(PROCESS).set(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - the same
