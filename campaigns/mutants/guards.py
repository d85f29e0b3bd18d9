"""The mutants: for each guard of the ledger, the change that takes it out, and the tests that should notice.

A guard with several halves has a mutant for each half. Add one with every new guard.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """A guard's absence: `new` in place of `old` in `file`, and the tests of which one has to fail then.

    `protects` is what the guard prevents. `old` occurs once in the file. A test is a file, or `file::function`.
    """

    name: str
    protects: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self) -> str | None:
        """Returns why this mutant cannot be tested, None where it can."""
        text = (ROOT / self.file).read_text()
        if (count := text.count(self.old)) != 1:
            return (
                f"{self.name}: its old text occurs {count} times in {self.file}, not once: bring the mutant up to date"
            )
        if self.file.endswith(".py"):
            try:
                compile(text.replace(self.old, self.new), self.file, "exec")
            except SyntaxError as error:
                return f"{self.name}: its new text makes {self.file} invalid: {error}"
        for test in self.tests:
            file, _, function = test.partition("::")
            if not (ROOT / file).is_file():
                return f"{self.name}: there is no {file}"
            if function and not re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(), re.MULTILINE):
                return f"{self.name}: {file} has no {function}"
        return None


_STATEMENT: Final = "src/ledger/journal/commit/append_statement.py"
_BATCH: Final = "src/ledger/journal/commit/batch.py"
_GROUP_COMMIT: Final = "src/ledger/postgres/group_commit.py"
_PIPELINE_MODULE: Final = "src/ledger/postgres/pipeline.py"
_OVERLAPPING: Final = "src/ledger/journal/commit/overlapping_batches.py"
_IMPORT: Final = "src/ledger/operations/products/import_products.py"
_READER: Final = "src/ledger/journal/reader.py"
_CODEC: Final = "src/ledger/journal/codec.py"
_SEALING: Final = "src/ledger/journal/encryption/sealing.py"
_ORDER_EVENTS: Final = "src/ledger/domain/orders/events.py"
_DECIDE: Final = "src/ledger/domain/orders/decide"
_PAYMENT: Final = "src/ledger/domain/orders/payment.py"
_PIPELINE: Final = "src/ledger/operations/pipeline"
_RECOVERY: Final = "src/ledger/background/recovery.py"
_DISPATCHER: Final = "src/ledger/background/reactions/dispatcher.py"
_TIMERS: Final = "src/ledger/background/scheduler/timers.py"
_JOBS: Final = "src/ledger/background/scheduler/jobs.py"
_INBOX: Final = "src/ledger/processors/inbox_store.py"
_CONSUMER: Final = "src/ledger/background/inbox/consumer.py"
_FAIR_SLOTS: Final = "src/ledger/background/fair_slots.py"
_FAIR_QUEUE: Final = "src/ledger/background/scheduler/fair_queue.py"
_MESSAGES: Final = "src/ledger/processors/messages.py"
_ORDER_TABLE: Final = "src/projections/orders/table.py"
_LISTS: Final = "src/projections/lists/statements.py"
_SEARCH: Final = "src/projections/search/statements.py"
_HTTP: Final = "src/api/http"
_STORED_TEXT: Final = "src/api/decoding/stored_text.py"
_MERCHANT_DECIDE: Final = "src/ledger/domain/merchants/decide.py"
_PREPARE: Final = "src/ledger/postgres/prepare.py"

JOURNAL: Final = (
    Mutant(
        "append-without-version-check",
        "two commands that expect the same version of a stream do not both write it",
        _STATEMENT,
        "where next.found or (s.x > 0 and here.found is null)",
        "where (s.x > 0 and here.found is null)",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "append-at-a-future-version",
        "a command that expects a version which the stream has not reached is refused",
        _STATEMENT,
        "where next.found or (s.x > 0 and here.found is null)",
        "where next.found",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "append-without-claim-check",
        "an external id belongs to one stream",
        _STATEMENT,
        "where t.merchant_id = k.m and t.kind = k.kind and t.key = k.key limit 1) taken on true",
        "where false limit 1) taken on true",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "claim-of-any-kind",
        "customers and orders have external ids of their own",
        _STATEMENT,
        "where t.merchant_id = k.m and t.kind = k.kind and t.key = k.key limit 1) taken on true",
        "where t.merchant_id = k.m and t.key = k.key limit 1) taken on true",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "claim-of-any-merchant",
        "merchants choose external ids independently of each other",
        _STATEMENT,
        "where t.merchant_id = k.m and t.kind = k.kind and t.key = k.key limit 1) taken on true",
        "where t.kind = k.kind and t.key = k.key limit 1) taken on true",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "append-without-head-lock",
        "two processes that write one merchant's log take turns, so that positions have no gap",
        _STATEMENT,
        "where merchant_id = any($1::uuid[]) order by merchant_id for update",
        "where merchant_id = any($1::uuid[]) order by merchant_id",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "append-without-a-log",
        "nothing is appended for a merchant that does not exist",
        _STATEMENT,
        "left join merchant_head h on h.merchant_id = s.m where h.merchant_id is null),",
        "left join merchant_head h on h.merchant_id = s.m where false),",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "read-models-of-losers",
        "a command that met a conflict writes no read model",
        _STATEMENT,
        "as r(c, {columns}) where c <> all ((select c from losers)::int4[])),",
        "as r(c, {columns})),",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "claims-of-losers",
        "a command that met a conflict takes no key",
        _STATEMENT,
        "select m, kind, key, o from claimed where c <> all ((select c from losers)::int4[])){inline}",
        "select m, kind, key, o from claimed){inline}",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "one-stream-twice-in-a-batch",
        "of two commands of one batch that write one stream, the second sees the first",
        _BATCH,
        "self._written.isdisjoint(written + checked)",
        "True",
        ("tests/journal/test_batch.py",),
    ),
    Mutant(
        "checked-stream-written-in-the-batch",
        "a command that only checks a stream shares no batch with one that writes it",
        _BATCH,
        "and self._checked.isdisjoint(written)",
        "",
        ("tests/journal/test_batch.py",),
    ),
    Mutant(
        "one-key-twice-in-a-batch",
        "two commands that claim one key share no batch: both would find it free",
        _BATCH,
        "and self._claimed.isdisjoint(claimed)",
        "",
        ("tests/journal/test_batch.py",),
    ),
    Mutant(
        "unknown-commit-answered-too-early",
        "a command whose commit is unknown is answered only after the old backend has ended",
        _GROUP_COMMIT,
        "await end_backend(connection, self._backend)",
        "pass",
        ("tests/journal/test_unknown_commits.py",),
    ),
    Mutant(
        "lost-connection-taken-for-a-rollback",
        "a statement without the server's own ERROR may have been committed",
        _GROUP_COMMIT,
        'return fault.sqlstate is not None and fault.diag.severity_nonlocalized == "ERROR"',
        "return True",
        ("tests/journal/test_unknown_commits.py",),
    ),
    Mutant(
        "second-batch-taken-for-rolled-back",
        "after a lost connection, both batches in flight are looked up in the log",
        _OVERLAPPING,
        "self._fail(batch, fault, is_unknown=self._is_unknown(fault))\n            return",
        "self._fail(batch, fault, is_unknown=False)\n            return",
        ("tests/journal/test_overlapping_batches.py",),
    ),
    Mutant(
        "unreadable-answer-taken-for-a-rollback",
        "a batch whose answer cannot be read is looked up, not sent again",
        _OVERLAPPING,
        "self._fail(batch, fault, is_unknown=True)",
        "self._fail(batch, fault, is_unknown=False)",
        ("tests/journal/test_overlapping_batches.py",),
    ),
    Mutant(
        "batch-refused-for-the-one-before",
        "a batch is sent again whose statement the batch before it failed to prepare",
        _OVERLAPPING,
        "_TRY_AGAIN: Final = (*TRY_AGAIN, psycopg.errors.InvalidSqlStatementName)",
        "_TRY_AGAIN: Final = TRY_AGAIN",
        ("tests/journal/test_overlapping_batches.py",),
    ),
    Mutant(
        "failed-statement-taken-for-prepared",
        "a statement that could not be prepared is prepared with the next batch",
        _PIPELINE_MODULE,
        "self._prepared.discard(name)",
        "pass",
        ("tests/journal/test_overlapping_batches.py",),
    ),
    Mutant(
        "error-at-the-commit-overlooked",
        "a transaction that fails at its commit is not answered as committed",
        _PIPELINE_MODULE,
        "next((result for result in results if",
        "next((result for result in results[: len(transaction.preparing) + 2] if",
        ("tests/journal/test_overlapping_batches.py",),
    ),
    Mutant(
        "reset-connection-read-once",
        "a connection that the server has reset is read until its end, although uvloop reports it once",
        _PIPELINE_MODULE,
        "while self._is_open and self._unread.poll(0):",
        "while False:",
        (
            "tests/journal/test_overlapping_batches.py::test_a_connection_lost_before_both_commits_is_resolved_by_one_look_up",
        ),
    ),
    Mutant(
        "silence-behind-an-answered-batch",
        "a server that answers the first of two batches and then falls silent is given up",
        _PIPELINE_MODULE,
        "        if self._in_flight:\n            self._timeout.start()\n",
        "",
        ("tests/journal/test_overlapping_batches.py::test_a_second_batch_without_an_answer_is_given_up",),
    ),
    Mutant(
        "commit-of-another-command",
        "after a lost connection, another command's event at the same version is not taken for the own one",
        _STATEMENT,
        " and e.version = c.v and e.command_id = c.command_id",
        " and e.version = c.v",
        ("tests/journal/test_unknown_commits.py",),
    ),
    Mutant(
        "stream-of-any-merchant",
        "a merchant reads only its own streams",
        _READER,
        "where merchant_id = k.m and stream_id = k.o order by version) e",
        "where stream_id = k.o order by version) e",
        ("tests/operations/test_orders.py",),
    ),
    Mutant(
        "claim-owner-of-any-merchant",
        "an external id leads only to a stream of its own merchant",
        _READER,
        "join claim c on c.merchant_id = k.m and c.kind = k.kind and c.key = k.key",
        "join claim c on c.kind = k.kind and c.key = k.key",
        ("tests/operations/test_orders.py", "tests/operations/test_sealing.py"),
    ),
    Mutant(
        "reactions-to-the-events-of-any-merchant",
        "reactions to a merchant's log are shown only its own events",
        _READER,
        "where merchant_id = k.m and position > k.after and position <= k.until",
        "where position > k.after and position <= k.until",
        ("tests/background/test_sweeps.py", "tests/background/test_dispatcher.py"),
    ),
    Mutant(
        "recorder-of-any-merchant",
        "an application of the eventsourcing library reads only its own merchant's log",
        "src/ledger/recorder/recorders.py",
        " where merchant_id = %s and position > %s and position <= %s order by position limit %s",
        " where %s::uuid is not null and position > %s and position <= %s order by position limit %s",
        ("tests/recorder/test_append.py",),
    ),
    Mutant(
        "personal-data-unsealed",
        "personal data is stored only sealed",
        _CODEC,
        "clear, personal = split(event, paths)",
        "clear, personal = event, {}",
        ("tests/journal/test_sealing.py",),
    ),
    Mutant(
        "billing-address-unsealed",
        "every personal field of an order is sealed, its billing address among them",
        _ORDER_EVENTS,
        'OrderCreated: ("metadata", "billing_address", "device_information", "fiscal"),',
        'OrderCreated: ("metadata", "device_information", "fiscal"),',
        ("tests/journal/test_sealing.py", "tests/operations/test_sealing.py"),
    ),
    Mutant(
        "cardholder-unsealed",
        "the name on the card is sealed, although it lies inside the payment method",
        _ORDER_EVENTS,
        'PaymentStarted: ("method.card.cardholder_name", ',
        "PaymentStarted: (",
        ("tests/journal/test_sealing.py", "tests/operations/test_sealing.py"),
    ),
    Mutant(
        "email-unsealed",
        "a customer's e-mail is sealed",
        "src/ledger/domain/customers/events.py",
        'CustomerCreated: ("first_name", "last_name", "email", "phone_number", "metadata"),',
        'CustomerCreated: ("first_name", "last_name", "phone_number", "metadata"),',
        ("tests/journal/test_sealing.py", "tests/operations/test_sealing.py"),
    ),
    Mutant(
        "sealed-data-of-another-stream",
        "sealed data opens only in the stream for which it was written",
        _SEALING,
        "_LABEL + owner + stream_id",
        "_LABEL + owner",
        ("tests/journal/test_sealing.py",),
    ),
    Mutant(
        "erasure-keeps-the-data-key",
        "the data key of an erased customer is destroyed in the commit of the erasure",
        "src/ledger/journal/journal.py",
        "if customer.erased:",
        "if False:",
        ("tests/operations/test_erasure.py",),
    ),
    Mutant(
        "application-changes-events",
        "the database role of the service cannot change or delete events",
        _PREPARE,
        '_INSERT_ONLY: Final = ("event", "claim", "schema_migration", "master_key_fingerprint")',
        '_INSERT_ONLY: Final = ("claim", "schema_migration", "master_key_fingerprint")',
        ("tests/postgres/test_prepare.py",),
    ),
    Mutant(
        "application-changes-claims",
        "the database role of the service cannot change or delete claims",
        _PREPARE,
        '_INSERT_ONLY: Final = ("event", "claim", "schema_migration", "master_key_fingerprint")',
        '_INSERT_ONLY: Final = ("event", "schema_migration", "master_key_fingerprint")',
        ("tests/postgres/test_prepare.py",),
    ),
    Mutant(
        "application-deletes-data-keys",
        "the database role of the service cannot delete the row of a data key",
        _PREPARE,
        '_NEVER_DELETED: Final = ("data_key",)',
        "_NEVER_DELETED: Final = ()",
        ("tests/postgres/test_prepare.py",),
    ),
    Mutant(
        "production-without-durable-commits",
        "production does not start on a database that may lose commits",
        _PREPARE,
        """\
a crash would lose payments"
    if environment == "production":
""",
        """\
a crash would lose payments"
    if False:
""",
        ("tests/postgres/test_prepare.py",),
    ),
)

PROCESSES: Final = (
    Mutant(
        "locked-merchant-behind-a-locked-table",
        "the commands of a locked merchant wait no longer than those that wait for a table",
        "src/ledger/journal/commit/writer.py",
        "        self._locked.reject_late()  # the rest may wait for a locked table, and no head is looked at meanwhile\n",
        "",
        ("tests/journal/test_lost_connections.py",),
    ),
    Mutant(
        "timer-of-a-clock-that-is-ahead",
        "a task whose time has not come by this machine's clock waits, because its timer is gone",
        "src/ledger/background/scheduler/jobs.py",
        "            await self._ledger.clock.reach(merchant_id, task.due_at)  # its timer is gone: it must not be found early\n",
        "",
        ("tests/background/test_jobs.py",),
    ),
    Mutant(
        "charge-without-a-timer",
        "the timer of a charge is tried again until the charge has an outcome",
        "src/ledger/background/reactions/subscription_timers.py",
        "        raise ChargeUnderWay\n",
        "        return\n",
        ("tests/subscriptions/test_unknown_charges.py",),
    ),
    Mutant(
        "cancellation-sent-late",
        "a document is not cancelled after the deadline of the call, when the recovery may settle it",
        "src/ledger/operations/orders/invoices/cancel.py",
        "    if left_s <= 0:",
        "    if False:",
        ("tests/api/invoices/test_stamp.py",),
    ),
    Mutant(
        "heartbeat-given-up",
        "a heartbeat over a broken connection is repeated, so that the worker fetches on",
        "src/ledger/background/scheduler/fair_queue.py",
        "        for pause_s in _HEARTBEAT_AGAIN_S:",
        "        for pause_s in ():",
        ("tests/background/test_jobs.py",),
    ),
    Mutant(
        "parts-left-behind-by-one-that-fails",
        "where a part of the worker fails, the others end before their connections",
        "src/ledger/background/worker.py",
        "            stop.set()  # if a part has failed, the others end before their connections do\n",
        "",
        ("tests/background/test_worker.py",),
    ),
    Mutant(
        "part-ended-by-a-read-only-database",
        "a database that became read only is waited for, as one that is away",
        "src/ledger/postgres/faults.py",
        "(psycopg.OperationalError, psycopg.InternalError, psycopg.errors.InsufficientPrivilege)",
        "(psycopg.OperationalError,)",
        ("tests/postgres/test_connection.py",),
    ),
    Mutant(
        "worker-ended-by-one-merchant",
        "a reaction that fails at the events of a merchant delays no other merchant",
        "src/ledger/background/reactions/dispatcher.py",
        "                if isinstance(fault, psycopg.Error | Fault) and not isinstance(fault, UNREADABLE):",
        "                if not isinstance(fault, UNREADABLE):",
        ("tests/background/test_quarantine.py",),
    ),
    Mutant(
        "due-date-without-bounds",
        "a due date has days before and after it, on which messages are sent",
        "src/api/orders/create.py",
        "    if not DUE_DATE_MIN <= due_date < DUE_DATE_MAX:",
        "    if False:",
        ("tests/api/orders/test_order_input.py",),
    ),
    Mutant(
        "chargeback-beyond-the-held-money",
        "a lost dispute takes at most what the payment holds",
        "src/ledger/domain/orders/evolve/disputes.py",
        "    taken = min(event.amount, payment.refundable)",
        "    taken = event.amount",
        ("tests/domain/test_disputes.py",),
    ),
    Mutant(
        "credit-of-a-plan-never-charged",
        "a change of plan credits what the period was charged by, not the plan that stands",
        "src/ledger/domain/subscriptions/evolve.py",
        "    if event.priced_seconds is None:\n        return after\n",
        "    if event.priced_seconds is None:\n        event = replace(event, priced_seconds=2_678_400)\n",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "retries-skipped-by-a-request",
        "a declined charge by request does not use up the retries that never began",
        "src/ledger/domain/subscriptions/decide/charges.py",
        "    if charge.trigger not in _SCHEDULED and invoice.next_attempt_at is not None:\n        return invoice",
        "    if charge.trigger not in _SCHEDULED:\n        return invoice",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "day-compared-only-once",
        "a day whose reconciliation failed is compared again",
        "src/ledger/background/reconciliation/reconciler.py",
        "                await give_back(since, until)\n",
        "",
        ("tests/background/test_reconciliation.py",),
    ),
    Mutant(
        "locked-merchant-behind-the-table-of-heads",
        "the commands of a locked merchant are refused in time where no head can be looked at",
        "src/ledger/journal/commit/writer.py",
        "                self._locked.reject_late()  # no head can be looked at while their table is locked\n",
        "                pass\n",
        ("tests/journal/test_lost_connections.py",),
    ),
    Mutant(
        "look-up-of-commits-given-up",
        "a writer that cannot find out what is committed goes on trying, whatever the server's error is",
        "src/ledger/postgres/group_commit.py",
        "                if not isinstance(fault, psycopg.Error):",
        "                if not isinstance(fault, psycopg.OperationalError):",
        ("tests/journal/test_lost_connections.py",),
    ),
    Mutant(
        "commands-for-an-ended-writer",
        "a writer whose task has ended takes no command that would wait without end",
        "src/ledger/postgres/group_commit.py",
        "            self._closing = True  # a command that is submitted from now on would wait without end\n",
        "",
        ("tests/journal/test_lost_connections.py",),
    ),
    Mutant(
        "read-only-database-blamed-on-a-command",
        "a batch that a read-only database refuses is answered 503, and no command is to blame",
        "src/ledger/journal/commit/writer.py",
        "_VALUE_REFUSED: Final = (psycopg.DataError, psycopg.IntegrityError)",
        "_VALUE_REFUSED: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.InternalError)",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "read-unanswered-at-the-end",
        "a data loader that stops answers the read in flight",
        "src/ledger/postgres/dataloader.py",
        '                _fail(callers, "the service ends")\n',
        "",
        ("tests/postgres/test_dataloader.py",),
    ),
    Mutant(
        "disk-probe-ended-by-an-error",
        "the probe of the disk reports every refusal, and goes on",
        "src/ledger/journal/commit/disk_probe.py",
        "            except psycopg.Error as fault:  # such as",
        "            except psycopg.DataError as fault:  # such as",
        ("tests/journal/test_disk_probe.py",),
    ),
    Mutant(
        "operation-cancelled-with-its-request",
        "an operation goes on where the request that waits for it is cancelled",
        "src/ledger/tasks.py",
        "        return caller\n",
        "        return task\n",
        ("tests/test_tasks.py",),
    ),
    Mutant(
        "stopped-writer-left-alone",
        "on Postgres 15 and 16, a process that stops in its commit does not hold a merchant's head without end",
        "src/ledger/journal/commit/locked_merchants.py",
        "            await self._end_stopped(pipeline)  # first: a stopped writer may be why the heads cannot be looked at\n",
        "",
        ("tests/journal/test_stopped_writers.py",),
    ),
    Mutant(
        "commit-without-a-time-limit",
        "Postgres 17 and newer end a commit whose process stops",
        "src/ledger/postgres/connection.py",
        "if transaction_max_s is not None and",
        "if False and",
        ("tests/journal/test_stopped_writers.py",),
    ),
    Mutant(
        "commit-sent-in-parts",
        "a writer waits for nothing between the lock and the Sync of its commit",
        _PIPELINE_MODULE,
        "            self._pgconn.pipeline_sync()\n            self._flush()\n",
        "            self._pgconn.flush()\n            self._loop.call_soon(self._pgconn.pipeline_sync)\n",
        ("tests/journal/test_stopped_writers.py",),
    ),
    Mutant(
        "waiting-writer-taken-for-a-stopped-one",
        "a writer that waits for a lock keeps its connection",
        "src/ledger/journal/commit/locked_merchants.py",
        " and wait_event = 'ClientRead'",
        "",
        ("tests/journal/test_stopped_writers.py",),
    ),
    Mutant(
        "parent's-own-stop-counted",
        "a parent that was stopped together with its children does not end them when it wakes up",
        "src/ledger/service/ping.py",
        "min(now - self._last, _STEP_MAX_S)",
        "now - self._last",
        ("tests/service/test_ping.py",),
    ),
    Mutant(
        "ping-overdue-after-the-time-out",
        "a stopped child is ended within the time-out, wherever the stop falls between two looks of its parent",
        "src/ledger/service/ping.py",
        "timeout_s - _MARGIN_S",
        "timeout_s",
        ("tests/service/test_ping.py",),
    ),
    Mutant(
        "heads-ahead-uncounted",
        "the heads of requests that wait in a connection count as held",
        "src/ledger/service/http/bounded_protocol.py",
        "self._waiting_heads.append(_REQUEST_BYTES + address + fields)",
        "self._waiting_heads.append(_REQUEST_BYTES)",
        ("tests/service/test_bounded_protocol.py",),
    ),
    Mutant(
        "closed-connection-keeps-its-last-request",
        "a connection that is closed for what it holds frees all of it before the loop's next turn",
        "src/ledger/service/http/bounded_protocol.py",
        "        self.cycle = self._current\n",
        "",
        (
            "tests/service/test_bounded_protocol.py::test_a_connection_that_is_closed_frees_its_waiting_requests_at_once",
        ),
    ),
    Mutant(
        "ping-answered-by-a-thread",
        "a child whose event loop hangs does not answer its parent",
        "src/ledger/service/ping.py",
        "self._loop.call_soon_threadsafe(os.write, self._to_parent, _PING)",
        "os.write(self._to_parent, _PING)",
        ("tests/service/test_ping.py",),
    ),
    Mutant(
        "start-that-never-ends",
        "a child that stops before it is ready is ended",
        "src/ledger/service/child_process.py",
        "elif not self.is_ready and now - self._started > _START_MAX_S:",
        "elif False:",
        ("tests/service/test_child_process.py",),
    ),
    Mutant(
        "clocks-moved-without-a-bound",
        "requests that move clocks open no more connections than are counted",
        "src/ledger/background/clock/advance.py",
        "async with self._permits, self._leased(merchant_id)",
        "async with self._leased(merchant_id)",
        ("tests/postgres/test_connection_count.py",),
    ),
    Mutant(
        "too-few-connections-accepted",
        "a service whose database allows too few connections does not start",
        "src/ledger/postgres/connection_count.py",
        "    if needed > allowed:",
        "    if False:",
        ("tests/postgres/test_connection_count.py",),
    ),
    Mutant(
        "limit-of-the-role-ignored",
        "the connections that are allowed include the limit of the role",
        _PREPARE,
        "  case when r.rolconnlimit >= 0 then r.rolconnlimit end,\n",
        "",
        ("tests/postgres/test_connection_count.py",),
    ),
    Mutant(
        "embedded-server-without-the-count",
        "the embedded server accepts the connections of all processes",
        "src/ledger/service/supervisor.py",
        "**embedded_settings(self._settings), ",
        "",
        ("tests/service/test_supervisor.py::test_the_embedded_server_accepts_what_all_processes_open",),
    ),
    Mutant(
        "service-ended-by-postgres",
        "a service that was ready stays while its Postgres does not start",
        "src/ledger/service/supervisor.py",
        "            self._keep_database()\n",
        "            self._tick_database()\n",
        ("tests/service/test_supervisor.py::test_a_postgres_that_cannot_start_is_tried_again_until_it_can",),
    ),
    Mutant(
        "restart-without-a-pause",
        "a process that keeps ending is started again only after a pause",
        "src/ledger/service/child_slot.py",
        "if may_start and now >= self._next_start",
        "if may_start",
        ("tests/service/test_child_slot.py",),
    ),
    Mutant(
        "failed-start-reported-each-time",
        "a process that never becomes ready is reported once",
        "src/ledger/service/child_slot.py",
        '        if what == self._reported:\n            return ""\n',
        "",
        ("tests/service/test_child_slot.py",),
    ),
    Mutant(
        "ready-without-the-worker",
        "a service that lacks a process is not ready",
        "src/api/system/readiness.py",
        "processes=all_ready(),",
        "processes=True,",
        ("tests/api/system/test_health.py",),
    ),
    Mutant(
        "request-that-waits-for-the-outage",
        "a request whose commit is of unknown fate is answered during the outage",
        "src/api/http/open_requests.py",
        "            self._end(waiting)\n",
        "",
        ("tests/api/http/test_open_requests.py",),
    ),
    Mutant(
        "ready-without-a-processor",
        "a process that cannot send calls to the processor is not ready",
        "src/api/system/readiness.py",
        "checks.processor = ledger.processor is None or ledger.processor.alive",
        "checks.processor = True",
        ("tests/api/system/test_health.py",),
    ),
    Mutant(
        "ready-without-order-numbers",
        "a process that has no order numbers and gets none is not ready",
        "src/api/system/readiness.py",
        "                await ledger.order_numbers.provide()\n",
        "",
        ("tests/api/system/test_health.py",),
    ),
)

MONEY: Final = (
    Mutant(
        "payment-above-the-order",
        "payments never exceed what is unpaid and not reserved",
        f"{_DECIDE}/payments.py",
        "if amount > order.unpaid_subtotal - order.reserved:",
        "if False:",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "payment-ignores-reservations",
        "two parts of an order that are authorised at once do not exceed it together",
        f"{_DECIDE}/payments.py",
        "if amount > order.unpaid_subtotal - order.reserved:",
        "if amount > order.unpaid_subtotal:",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "validated-part-ignores-other-payments",
        "a part whose payer comes back late is not authorised where others have paid it",
        f"{_DECIDE}/authentication.py",
        "if payment.started.subtotal > order.unpaid_subtotal - order.reserved:",
        "if False:",
        ("tests/domain/test_authentication.py",),
    ),
    Mutant(
        "charge-of-a-paid-order",
        "an order that waits for no payment is not charged",
        f"{_DECIDE}/payments.py",
        "    if order.status not in allowed:",
        "    if False:",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "same-payment-twice",
        "a payment with a known external id is not made again",
        f"{_DECIDE}/payments.py",
        "existing = None if payment.external_id is None else order.payment_by_external_id(payment.external_id)",
        "existing = None",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "resubmission-with-another-amount",
        "an order's external id with another amount is refused",
        f"{_DECIDE}/payments.py",
        "        if requested != current:",
        "        if False:",
        ("tests/domain/test_create.py", "tests/operations/test_orders.py"),
    ),
    Mutant(
        "amount-off-the-quantum",
        "amounts are multiples of the order's quantum",
        f"{_DECIDE}/guards.py",
        "if not is_multiple(amount, order.quantum):",
        "if False:",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "amount-of-zero-or-less",
        "amounts are positive and have a bound",
        f"{_DECIDE}/guards.py",
        "if not (amount.is_finite() and ZERO < amount <= most):",
        "if False:",
        ("tests/domain/test_charge.py",),
    ),
    Mutant(
        "method-in-another-currency",
        "a method is not used in a currency that the processor does not take",
        f"{_DECIDE}/guards.py",
        "if payment.currencies is not None and currency not in payment.currencies:",
        "if False:",
        ("tests/api/orders/test_order_actions.py::test_a_reference_in_dollars_is_refused_before_anything_has_begun",),
    ),
    Mutant(
        "capture-above-the-authorisation",
        "a capture does not exceed what is left of its authorisation",
        f"{_DECIDE}/captures.py",
        "if amount > left:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "further-capture-of-a-paid-part",
        "a further capture does not take what another payment has paid since",
        f"{_DECIDE}/captures.py",
        "if further > order.unpaid_subtotal - order.reserved:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "captured-money-twice",
        "the outcome of one capture counts once",
        f"{_DECIDE}/captures.py",
        "if command.idempotency_key in payment.capture_keys:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "capture-before-it-is-due",
        "a scheduled capture does not start early",
        f"{_DECIDE}/captures.py",
        "if payment.capture_due_at is not None and payment.capture_due_at > command.at:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "capture-of-a-cancelled-payment",
        "a scheduled capture does not start after a cancellation was requested",
        f"{_DECIDE}/captures.py",
        "if not scheduled or cancelled or command.idempotency_key in payment.keys:",
        "if not scheduled or command.idempotency_key in payment.keys:",
        ("tests/domain/test_captures.py", "tests/domain/test_references.py"),
    ),
    Mutant(
        "dispute-without-money-tried-for-ever",
        "a dispute on a payment that holds no money and gets none is set aside with its reason",
        "src/ledger/background/inbox/message_handlers.py",
        "if not payment.captured and payment.intent is None and (is_held or payment.status not in LIVE):",
        "if False:",
        ("tests/background/test_inbox.py",),
    ),
    Mutant(
        "mistyped-clabe-accepted",
        "a transfer to a CLABE with a wrong check digit is refused",
        "src/api/sandbox/deposits.py",
        'if sent.clabe is not None and not errors.has("clabe") and not is_clabe(sent.clabe):',
        "if False:",
        ("tests/api/sandbox/test_wrong_fields.py",),
    ),
    Mutant(
        "message-dismissed-while-tried",
        "a message that a worker is trying is not dismissed: an order may record it",
        "src/ledger/background/inbox/dismissal.py",
        "and coalesce(claimed_until, '-infinity') <= now() returning 1",
        "returning 1",
        ("tests/background/test_dismissal.py",),
    ),
    Mutant(
        "message-with-an-order-dismissed",
        "only a message that no order matches, or that was set aside, is dismissed",
        "src/ledger/background/inbox/dismissal.py",
        "if message.waits_for not in UNMATCHED and not message.set_aside:",
        "if False:",
        ("tests/background/test_dismissal.py",),
    ),
    Mutant(
        "rebuild-over-a-newer-version",
        "a rebuild does not overwrite an order that a commit has rendered meanwhile",
        "src/ledger/backup/rebuild.py",
        " and version = %(version)s",
        "",
        ("tests/cli/test_rebuild.py",),
    ),
    Mutant(
        "fraction-of-a-centavo-by-mistake",
        "a merchant that takes no fractions is not charged a hundredth of what it meant",
        "src/api/fields/values.py",
        "if settings.fractional_amounts:",
        "if True:",
        ("tests/api/orders/test_fractional_amounts.py",),
    ),
    Mutant(
        "helper-with-ids-of-its-own",
        "a deposit under a key counts once, also where its process ended before the answer was recorded",
        f"{_PIPELINE}/execute_once.py",
        'uuid5(uow.merchant_id, f"request:{key.key}")',
        "uuid4()",
        ("tests/api/sandbox/test_idempotency_keys.py",),
    ),
    Mutant(
        "helper-without-its-record",
        "a helper under a key that was answered does not act again",
        f"{_PIPELINE}/execute_once.py",
        "if done is not None:",
        "if False:",
        ("tests/api/sandbox/test_idempotency_keys.py",),
    ),
    Mutant(
        "authorisation-sent-again",
        "only captures, voids, refunds and payouts are sent again",
        f"{_DECIDE}/unanswered_calls.py",
        "if intent.action not in _REPEATED or intent.payment_id is None:",
        "if intent.payment_id is None:",
        ("tests/domain/test_repeated_calls.py",),
    ),
    Mutant(
        "call-sent-again-by-two-workers",
        "of several workers one sends a call again",
        f"{_DECIDE}/unanswered_calls.py",
        " or intent.deadline_at != command.after:",
        ":",
        ("tests/operations/test_repeated_calls.py",),
    ),
    Mutant(
        "settled-call-sent-again",
        "a call that has an outcome is not sent again",
        f"{_DECIDE}/unanswered_calls.py",
        "if intent is None or intent.idempotency_key != command.idempotency_key or intent.deadline_at != command.after:",
        "if intent is None:",
        ("tests/domain/test_repeated_calls.py",),
    ),
    Mutant(
        "payout-to-another-account",
        "a payout whose destination was erased is not sent to the account that the money came from",
        f"{_DECIDE}/unanswered_calls.py",
        "return not (is_payout and order.payer_forgotten)",
        "return True",
        ("tests/domain/test_repeated_calls.py",),
    ),
    Mutant(
        "payout-while-its-customer-is-erased",
        "a payout whose destination cannot be read any more is not sent, also before its order is erased",
        f"{_PIPELINE}/repeat_call.py",
        "events = []  # the destination may have been erased",
        "pass",
        ("tests/operations/test_repeated_calls.py",),
    ),
    Mutant(
        "payout-without-its-destination",
        "a payout that is sent again goes to the same destination",
        f"{_PIPELINE}/repeat_call.py",
        "secrets = SecretInputs(destination=await _destination(uow, order, intent))",
        "secrets = SecretInputs()",
        ("tests/operations/test_repeated_calls.py",),
    ),
    Mutant(
        "call-given-up-without-a-fence",
        "a call that was sent again for a day counts as never arrived only after its key is fenced",
        _RECOVERY,
        "outcome = await self._look_up(merchant_id, order, payment.intent, fence=not repeats)",
        "outcome = await self._look_up(merchant_id, order, payment.intent, fence=False)",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "call-to-repeat-fenced",
        "a key under which a call is to be sent again is not fenced",
        _RECOVERY,
        "outcome = await self._look_up(merchant_id, order, payment.intent, fence=not repeats)",
        "outcome = await self._look_up(merchant_id, order, payment.intent, fence=True)",
        ("tests/operations/test_repeated_calls.py",),
    ),
    Mutant(
        "call-sent-again-without-an-intent",
        "the repetition of a call is committed, and its call follows that commit",
        f"{_PIPELINE}/execute.py",
        "    ReferenceRequested,\n    CallRepeated,\n)",
        "    ReferenceRequested,\n)",
        ("tests/operations/test_repeated_calls.py",),
    ),
    Mutant(
        "unsent-refund-given-up-at-once",
        "a refund that never reached the processor stays open and is sent again",
        f"{_DECIDE}/refunds.py",
        "case NotSent(until=datetime() as until) if is_open_call:",
        "case NotSent(until=datetime() as until) if False:",
        ("tests/domain/test_repeated_calls.py",),
    ),
    Mutant(
        "known-silence-waits-for-its-deadline",
        "a call that came back unanswered is looked up soon after that, not after its whole deadline",
        _PAYMENT,
        "return self.deadline_at if self.came_back_at is None else self.came_back_at",
        "return self.deadline_at",
        ("tests/background/test_recovery.py", "tests/operations/test_action_recovery.py"),
    ),
    Mutant(
        "silence-of-unknown-time",
        "the log records when a call came back, so that any process looks it up early",
        "src/ledger/domain/orders/evolve/unanswered_calls.py",
        "replace(intent, unknown=True, came_back_at=event.came_back_at)",
        "replace(intent, unknown=True)",
        ("tests/background/test_recovery.py",),
    ),
    Mutant(
        "automatic-capture-not-attempted",
        "a capture that the processor was asked for and did not make with its approval is attempted by itself",
        f"{_DECIDE}/authorizations.py",
        "or _capture_due(payment, authorized, at)",
        "",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "capture-due-again-after-the-lapse",
        "an automatic capture that is refused for now is not tried on a lapsed authorisation",
        f"{_DECIDE}/captures.py",
        "if payment.lapses_at is not None and due_at >= payment.lapses_at:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "capture-by-hand-ends-the-payment",
        "a refused capture that the merchant requested leaves the payment authorised",
        f"{_DECIDE}/captures.py",
        "kept=order.terms.capture_method is CaptureMethod.MANUAL,",
        "kept=False,",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "authorisation-of-a-refused-capture-kept",
        "the authorisation of a payment that a refused capture has ended is voided",
        "src/ledger/domain/orders/timers.py",
        "return cancelled or needs_release(payment)",
        "return cancelled",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "release-of-captured-money",
        "an authorisation whose money came in after its capture was refused is not voided",
        f"{_DECIDE}/cancellation.py",
        "return failed and payment.intent is None and not payment.captured and not payment.void_refused",
        "return failed and payment.intent is None and not payment.void_refused",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "released-payment-becomes-cancelled",
        "FAILED is final: the void of a failed payment's authorisation does not change its status",
        "src/ledger/domain/orders/evolve/pending.py",
        "if payment.status is PaymentStatus.FAILED:",
        "if False:",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "refund-above-the-captured-money",
        "a refund of one payment does not exceed what it holds",
        f"{_DECIDE}/refunds.py",
        "        if amount > payment.refundable:",
        "        if False:",
        ("tests/domain/test_refunds.py",),
    ),
    Mutant(
        "refund-above-all-captured-money",
        "a refund over several payments does not exceed what they hold together",
        f"{_DECIDE}/refunds.py",
        "    if amount <= refundable:\n        return _allocate(free, amount)",
        "    if free:\n        return _allocate(free, amount)",
        ("tests/domain/test_refunds.py",),
    ),
    Mutant(
        "refund-in-flight-not-reserved",
        "the amount of a refund in flight counts as gone already",
        _PAYMENT,
        "return max(ZERO, self.captured - self.refunded - self.refunding)",
        "return max(ZERO, self.captured - self.refunded)",
        ("tests/domain/test_refund_examples.py",),
    ),
    Mutant(
        "two-refunds-in-flight",
        "one payment has one refund in flight",
        f"{_DECIDE}/refunds.py",
        "        if payment.refunding:",
        "        if False:",
        ("tests/domain/test_refund_examples.py",),
    ),
    Mutant(
        "refund-after-its-window",
        "a card is refunded within its processor's period",
        f"{_DECIDE}/refunds.py",
        "        if is_too_late(payment, command):",
        "        if False:",
        ("tests/domain/test_refunds.py",),
    ),
    Mutant(
        "same-refund-twice",
        "a refund with a known external id is not made again",
        f"{_DECIDE}/refunds.py",
        "existing = None if command.external_id is None else order.refund_by_external_id(command.external_id)",
        "existing = None",
        ("tests/domain/test_refunds.py",),
    ),
    Mutant(
        "refund-overwritten-by-an-older-outcome",
        "a refund that has succeeded stays so, whatever arrives later",
        f"{_DECIDE}/refunds.py",
        "    if part.status is RefundStatus.PENDING:",
        "    if part.status is not RefundStatus.FAILED:",
        ("tests/domain/test_refund_examples.py", "tests/domain/test_refunds.py"),
    ),
    Mutant(
        "dispute-above-the-held-money",
        "a dispute does not take more than is held",
        f"{_DECIDE}/disputes_and_settlement.py",
        "    if amount > held:",
        "    if False:",
        ("tests/domain/test_disputes.py",),
    ),
    Mutant(
        "ended-dispute-opened-again",
        "an older message about a dispute does not undo its end",
        f"{_DECIDE}/disputes_and_settlement.py",
        "if payment.decided(command.dispute_id) is not None:",
        "if False:",
        ("tests/domain/test_disputes.py",),
    ),
    Mutant(
        "refused-batch-listed-again",
        "an older line of a settlement batch does not undo a later one",
        f"{_DECIDE}/disputes_and_settlement.py",
        "case SettlementStage.LISTED if is_latest_batch:",
        "case SettlementStage.LISTED if listed:",
        ("tests/domain/test_disputes.py",),
    ),
    Mutant(
        "deposit-twice",
        "a deposit counts once for its id",
        f"{_DECIDE}/references.py",
        "if command.deposit_id in payment.deposits:",
        "if False:",
        ("tests/domain/test_references.py",),
    ),
    Mutant(
        "missing-answer-taken-for-a-decline",
        "an authorisation without an answer stays open",
        f"{_DECIDE}/authorizations.py",
        "return [] if _is_marked_unknown(payment) else [_unknown(payment, outcome, at)]",
        "return [_abandoned(payment, AbandonedBecause.NOT_FOUND, at)]",
        ("tests/domain/test_authorization_outcomes.py",),
    ),
    Mutant(
        "late-capture-ignored",
        "money that a processor reports on a payment that has ended is recorded",
        f"{_DECIDE}/authorizations.py",
        "    return [\n        LateCaptureReported(",
        "    return [] and [\n        LateCaptureReported(",
        ("tests/domain/test_authorization_outcomes.py",),
    ),
    Mutant(
        "late-capture-after-a-session-ignored",
        "money that was captured after the payer's session expired is recorded",
        f"{_DECIDE}/authorizations.py",
        "return _approved(payment, approval, command) if approval.captured > payment.captured else []",
        "return []",
        ("tests/domain/test_authentication.py",),
    ),
    Mutant(
        "late-success-of-a-capture-ignored",
        "a capture that succeeded after its refusal or its payment's end is recorded",
        f"{_DECIDE}/captures.py",
        "            return [\n                LateCaptureReported(",
        "            return [] and [\n                LateCaptureReported(",
        ("tests/domain/test_captures.py",),
    ),
    Mutant(
        "captured-money-counted-twice",
        "an approval that repeats captured money adds nothing",
        f"{_DECIDE}/authorizations.py",
        "captured = shortest(approval.captured - payment.captured)",
        "captured = shortest(approval.captured)",
        ("tests/domain/test_authorization_outcomes.py",),
    ),
    Mutant(
        "cancellation-closed-too-early",
        "an order is cancelled only when all its calls have an outcome",
        f"{_DECIDE}/closing.py",
        "if any(_is_in_progress(payment) for payment in after.payments):",
        "if False:",
        ("tests/domain/test_cancellation.py",),
    ),
    Mutant(
        "cancellation-closed-before-its-refund",
        "an order whose refund is in flight is not closed yet",
        f"{_DECIDE}/closing.py",
        "return payment.status in _IN_PROGRESS or payment.refunding > 0 or awaits_void",
        "return payment.status in _IN_PROGRESS or awaits_void",
        ("tests/domain/test_cancellation.py", "tests/domain/test_transition_rows.py"),
    ),
    Mutant(
        "cancellation-closed-before-its-void",
        "an order with an authorisation that waits for its void is not closed yet",
        f"{_DECIDE}/closing.py",
        "return payment.status in _IN_PROGRESS or payment.refunding > 0 or awaits_void",
        "return payment.status in _IN_PROGRESS or payment.refunding > 0",
        ("tests/domain/test_cancellation.py", "tests/domain/test_transition_rows.py"),
    ),
    Mutant(
        "cancelled-order-with-money",
        "an order that holds money is not closed as cancelled",
        f"{_DECIDE}/closing.py",
        "if after.net > 0 or any(payment.is_uncaptured for payment in after.payments):",
        "if any(payment.is_uncaptured for payment in after.payments):",
        ("tests/domain/test_cancellation.py",),
    ),
    Mutant(
        "cancellation-of-a-paid-order",
        "an order that holds money is refunded instead of cancelled",
        f"{_DECIDE}/cancellation.py",
        "if order.status in _PAID or (order.net > 0 and not command.refund_captured):",
        "if False:",
        ("tests/domain/test_cancellation.py",),
    ),
    Mutant(
        "expiry-during-a-call",
        "a payment with an open call does not expire",
        f"{_DECIDE}/disputes_and_settlement.py",
        "if because is None or payment.intent is not None:",
        "if because is None:",
        ("tests/domain/test_references.py",),
    ),
)

CALLS: Final = (
    Mutant(
        "call-before-its-intent-is-committed",
        "a crash during a call leaves an intent that the recovery finds",
        f"{_PIPELINE}/execute.py",
        """\
        try:
            await uow.commit(plan, calls=len(intents))
        except Conflict as met:
            conflict = met
            continue
        kinds = set(map(type, change.events))
        if PaymentCancelled in kinds:
            _withdraw_references(uow, change)
        if not _CONTRADICTIONS.isdisjoint(kinds):
            _report_contradictions(uow, plan)
        if intents:
            await _make_calls(uow, plan, intents, latest_s)
        return plan
""",
        """\
        answers = [await _call(uow, change.after, intent, plan.secrets, latest_s) for intent in intents]
        try:
            await uow.commit(plan, calls=len(intents))
        except Conflict as met:
            conflict = met
            continue
        _withdraw_references(uow, change)
        for intent, outcome in answers:
            await record_outcome(uow, plan.stream_id, intent, outcome, plan.secrets)
        return plan
""",
        ("tests/operations/test_crash_points.py", "tests/operations/test_orders.py"),
    ),
    Mutant(
        "conflict-resends-the-decision",
        "after a conflict the attempt decides again from the log, and does not resend what it decided before",
        f"{_PIPELINE}/unit_of_work.py",
        """\
            self.streams.pop(conflict.stream_id, None)
""",
        """\
            seen = self.streams.get(conflict.stream_id, _NEW)
            self.streams[conflict.stream_id] = Loaded(seen.state, seen.version + 1)
""",
        ("tests/operations/test_actions.py",),
    ),
    Mutant(
        "outcome-given-up-after-conflicts",
        "the outcome of a call is recorded however many others change the order meanwhile",
        f"{_PIPELINE}/execute.py",
        "for _ in range(ATTEMPTS_AT_A_FACT if is_fact else ATTEMPTS):",
        "for _ in range(ATTEMPTS):",
        ("tests/operations/test_orders.py",),
    ),
    Mutant(
        "silence-taken-for-unsent",
        "a call without an answer may have charged the payer",
        f"{_PIPELINE}/execute.py",
        "return intent, _come_back(_SILENT)",
        "return intent, NotSent()",
        ("tests/operations/test_orders.py",),
    ),
    Mutant(
        "unreadable-answer-taken-for-unsent",
        "a call whose answer cannot be read may have charged the payer",
        f"{_PIPELINE}/execute.py",
        "reason=type(fault).__name__)\n        return intent, _come_back(_UNREADABLE)",
        "reason=type(fault).__name__)\n        return intent, NotSent()",
        ("tests/operations/test_orders.py",),
    ),
    Mutant(
        "challenge-at-a-virtual-terminal",
        "a payment without a payer does not wait for one",
        f"{_PIPELINE}/execute.py",
        "if isinstance(answer, ActionRequired) and order.payment(intent.payment_id).started.virtual_terminal:",
        "if False:",
        ("tests/operations/test_orders.py",),
    ),
    Mutant(
        "end-of-month-that-drifts",
        "a billing period that is clamped to a short month returns to its day",
        "src/ledger/domain/subscriptions/calendar.py",
        "            return _in_utc(_months_after(anchor, intervals, anchor.day))",
        "            return _in_utc(_months_after(anchor, intervals, min(anchor.day, 28)))",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "second-charge-of-a-subscription",
        "no charge of a subscription begins while another is in progress",
        "src/ledger/domain/subscriptions/decide/changes.py",
        "    if invoice is None or state.charge is not None:",
        "    if invoice is None:",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "money-without-a-subscription",
        "money that no invoice of a subscription needs goes back",
        "src/ledger/domain/subscriptions/decide/charges.py",
        "    if invoice is None:\n        return True",
        "    if invoice is None:\n        return False",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "retry-after-a-hard-decline",
        "a card that was declined for good is not charged again by itself",
        "src/ledger/domain/subscriptions/decide/charges.py",
        "    if outcome.hard or not state.is_live",
        "    if not state.is_live",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "retries-without-end",
        "a soft decline is retried as often as the plan allows",
        "src/ledger/domain/subscriptions/decide/charges.py",
        "    if invoice.retries >= state.terms.max_retries:",
        "    if False:",
        ("tests/domain/test_subscriptions.py",),
    ),
    Mutant(
        "card-of-a-live-subscription-deleted",
        "a card that a live subscription is charged to is deleted by force only",
        "src/ledger/domain/payment_methods/decide.py",
        "    if method.used_by and not command.force:",
        "    if False:",
        ("tests/domain/test_payment_methods.py",),
    ),
    Mutant(
        "used-plan-with-another-price",
        "what a used plan charges never changes",
        "src/ledger/domain/plans/decide.py",
        "    if plan.used:\n        _refuse_fixed(",
        "    if False:\n        _refuse_fixed(",
        ("tests/domain/test_plans.py",),
    ),
    Mutant(
        "archived-plan-with-a-new-subscription",
        "an archived plan takes no new subscription",
        "src/ledger/domain/plans/decide.py",
        "    if plan.archived:\n        raise",
        "    if False:\n        raise",
        ("tests/domain/test_plans.py",),
    ),
    Mutant(
        "plans-of-any-merchant",
        "a plan is read by its own merchant alone",
        "src/projections/subscriptions/plans.py",
        "select doc from plan where merchant_id = q.merchant_id and plan_id = q.plan_id limit 1",
        "select doc from plan where plan_id = q.plan_id limit 1",
        ("tests/api/isolation/test_isolation.py",),
    ),
    Mutant(
        "subscriptions-of-any-merchant",
        "a subscription's invoice is read by its own merchant alone",
        "src/projections/subscriptions/invoices.py",
        "where merchant_id = q.merchant_id and invoice_id = q.invoice_id limit 1",
        "where invoice_id = q.invoice_id limit 1",
        ("tests/api/isolation/test_isolation.py",),
    ),
    Mutant(
        "rows-of-rare-tables-dropped",
        "a batch writes the rows of every rare table that one of its commands has rows of",
        "src/ledger/journal/commit/writer.py",
        "[command.rows for command in commands]",
        "[command.rows for command in commands[:1]]",
        ("tests/journal/test_writer.py",),
    ),
    Mutant(
        "key-with-another-request",
        "an idempotency key is refused with another request",
        f"{_PIPELINE}/idempotency.py",
        "if record is not None and not hmac.compare_digest(record.fingerprint, uow.key.fingerprint):",
        "if False:",
        ("tests/operations/test_idempotency.py", "tests/api/products/test_import.py"),
    ),
    Mutant(
        "import-of-another-merchants-product",
        "an import updates only its own merchant's products",
        _READER,
        "join claim c on (c.merchant_id, c.kind, c.key) = (k.m, k.kind, k.key)",
        "join claim c on (c.kind, c.key) = (k.kind, k.key)",
        ("tests/api/products/test_import.py",),
    ),
    Mutant(
        "import-without-claims",
        "two imports at once create a product once",
        _IMPORT,
        "                claims.append(Claim(ClaimKind.PRODUCT_ID, change.after.id, change.stream_id))",
        "                pass",
        ("tests/api/products/test_import.py",),
    ),
    Mutant(
        "import-of-an-id-twice",
        "the later product with an id fails",
        _IMPORT,
        "            if product.id in seen:",
        "            if False:",
        ("tests/api/products/test_import.py",),
    ),
    Mutant(
        "import-without-a-record",
        "an import under an idempotency key is made once",
        _IMPORT,
        "result=record)",
        "result=None)",
        ("tests/api/products/test_import.py",),
    ),
    Mutant(
        "import-beyond-a-thousand",
        "an import has at most a thousand products",
        "src/api/products/bulk_import.py",
        "    products: Annotated[list[Raw], Meta(min_length=1, max_length=PRODUCTS_MAX)]",
        "    products: list[Raw]",
        ("tests/api/products/test_import.py",),
    ),
    Mutant(
        "card-data-in-a-product",
        "no field of a product holds a card number",
        "src/api/fields/product.py",
        "    harmless = is_harmless(bytes(sent))",
        "    harmless = True",
        ("tests/api/products/test_import.py",),
    ),
    Mutant(
        "products-of-any-merchant",
        "a product is read by its own merchant alone",
        "src/projections/products.py",
        "select doc from product where merchant_id = q.merchant_id and id = q.id limit 1",
        "select doc from product where id = q.id limit 1",
        ("tests/api/products/test_import.py", "tests/api/products/test_lines_of_products.py"),
    ),
    Mutant(
        "line-without-taxes-of-its-own",
        "a line with taxes of its own takes none from its product",
        "src/api/fields/line_items.py",
        "taxes=line.taxes if item.taxes is not None else product.taxes or (),",
        "taxes=product.taxes or (),",
        ("tests/api/products/test_lines_of_products.py",),
    ),
    Mutant(
        "key-without-replay",
        "a repeated request is answered without a second call",
        f"{_PIPELINE}/execute.py",
        "answer = await answered_before(uow)",
        "answer = None",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "key-answered-while-its-call-is-open",
        "a repeated request is not answered while the first one is under way",
        f"{_PIPELINE}/idempotency.py",
        "        if has_open_call(order, target):",
        "        if False:",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "key-answered-with-a-newer-order",
        "a repeated request gets the order as it was answered then",
        f"{_PIPELINE}/idempotency.py",
        "order = fold(evolve, None, events[: record.answer.stream_version])",
        "order = fold(evolve, None, events)",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "two-requests-of-one-key",
        "of two simultaneous requests under one key, one is executed",
        f"{_PIPELINE}/unit_of_work.py",
        "        changes = plan.changes if record is None else [*plan.changes, record]",
        "        changes = plan.changes",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "rejection-not-recorded",
        "a rejection that lasts is repeated under its key",
        f"{_PIPELINE}/idempotency.py",
        "    if rejection.lasting:",
        "    if False:",
        ("tests/operations/test_idempotency.py",),
    ),
    Mutant(
        "fingerprint-without-the-body",
        "the fingerprint of a request includes its body",
        f"{_HTTP}/idempotency_key.py",
        "content = _encode([method, path, _without_secrets(msgspec.json.decode(body))])",
        "content = _encode([method, path])",
        ("tests/api/http/test_idempotency_key.py",),
    ),
    Mutant(
        "fingerprint-with-the-cvc",
        "a CVC is kept in no form",
        f"{_HTTP}/idempotency_key.py",
        '_SECRETS: Final = frozenset({"cvc", "cvv"})',
        "_SECRETS: Final = frozenset()",
        ("tests/api/http/test_idempotency_key.py",),
    ),
    Mutant(
        "not-found-before-the-window-is-over",
        "a call is given up only when the processor can no longer apply it late",
        _RECOVERY,
        "return NotFound() if found is None and is_final else found",
        "return NotFound() if found is None else found",
        ("tests/background/test_recovery.py",),
    ),
    Mutant(
        "call-looked-up-before-its-margin",
        "a call whose deadline has just passed is left to its own request",
        _RECOVERY,
        "if payment.intent is None or self._next_try(payment.intent) > datetime.now(UTC):",
        "if payment.intent is None:",
        ("tests/background/test_recovery.py",),
    ),
    Mutant(
        "not-found-without-a-fence",
        "a call that was not found has no effect when it arrives later",
        _RECOVERY,
        "fence=fence and is_final and can_fence",
        "fence=False",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "call-after-its-deadline",
        "a process that was stopped does not make a call that the recovery may have settled",
        f"{_PIPELINE}/execute.py",
        "    if left_s <= 0:",
        "    if left_s <= -1e9:",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "deadline-by-real-time-alone",
        "a machine whose clock was set back still ends the time for a call",
        f"{_PIPELINE}/execute.py",
        "left_s = min((intent.deadline_at - datetime.now(UTC)).total_seconds(), latest_s - time.monotonic())",
        "left_s = (intent.deadline_at - datetime.now(UTC)).total_seconds()",
        ("tests/operations/test_stalls.py",),
    ),
    Mutant(
        "fenced-authorisation-carried-out",
        "a fence refuses an authorisation",
        "src/ledger/processors/sandbox/charge_rows.py",
        "    if decline_code == _FENCED:\n        return None\n",
        "    if decline_code == _FENCED:\n        decline_code = None\n",
        ("tests/processors/test_fences.py",),
    ),
    Mutant(
        "unreachable-processor-taken-for-not-found",
        "a processor that does not answer leaves the call open",
        _RECOVERY,
        "        except (ProcessorTimedOut, ProcessorUnavailable, TimeoutError):\n            return None",
        "        except (ProcessorTimedOut, ProcessorUnavailable, TimeoutError):\n            return NotFound()",
        ("tests/background/test_recovery.py",),
    ),
)

BACKGROUND: Final = (
    Mutant(
        "cursor-outside-the-timers-commit",
        "the cursor of a reaction moves in the commit of what follows from the events",
        _DISPATCHER,
        "        async with connection.transaction():\n            locked = await",
        "        if True:\n            locked = await",
        ("tests/background/test_dispatcher.py", "tests/background/test_sweeps.py"),
    ),
    Mutant(
        "cursor-not-locked",
        "two dispatchers never show the same events",
        _DISPATCHER,
        "order by merchant_id, reaction for update skip locked)",
        "order by merchant_id, reaction)",
        ("tests/background/test_dispatcher.py", "tests/background/test_sweeps.py"),
    ),
    Mutant(
        "cursor-moved-past-an-unreadable-log",
        "events that cannot be read are not skipped",
        _DISPATCHER,
        "                self.quarantine.add(new.reactions[0], merchant_id, fault)\n                return []",
        "                self.quarantine.add(new.reactions[0], merchant_id, fault)\n                return new.reactions",
        ("tests/background/test_quarantine.py",),
    ),
    Mutant(
        "timer-deleted-outside-its-jobs-commit",
        "a timer is deleted in the commit that enqueues its job",
        _TIMERS,
        "    async with connection.transaction():\n        rows = await",
        "    if True:\n        rows = await",
        ("tests/background/test_dispatcher.py",),
    ),
    Mutant(
        "timer-fires-again",
        "a timer that has become a job is gone",
        _TIMERS,
        "delete from due_time d using due\n where",
        "update due_time d set due_at = d.due_at from due\n where",
        ("tests/background/test_dispatcher.py",),
    ),
    Mutant(
        "timer-of-a-leased-clock",
        "what is due while a clock is moved runs in the order of time, by the process that moves it",
        _TIMERS,
        "where coalesce(c.moving_until, '-infinity') <= now()",
        "where true",
        ("tests/background/test_dispatcher.py",),
    ),
    Mutant(
        "job-done-twice-after-it-was-put-back",
        "tasks that went into other jobs are not run by the old job as well",
        _JOBS,
        "await connection.execute(_EMPTY, (job.id,))",
        "pass",
        ("tests/background/test_jobs.py",),
    ),
    Mutant(
        "tasks-of-a-stream-out-of-order",
        "jobs about one stream run one after another",
        "src/ledger/background/scheduler/stored_jobs.py",
        "lock=stream_id + lane_of(kind) if len(tasks) == 1 else None,",
        "lock=None,",
        ("tests/background/test_jobs.py",),
    ),
    Mutant(
        "tasks-of-a-stream-at-once",
        "tasks of one stream in several jobs run one after another",
        _JOBS,
        "async with stream, slots.slot(merchant_id):",
        "async with slots.slot(merchant_id):",
        ("tests/background/test_jobs.py",),
    ),
    Mutant(
        "renewals-without-a-lane",
        "renewals that wait for their pace hold up no other work",
        "src/ledger/background/scheduler/lanes.py",
        '_Lane("-due", PACED_KINDS, RENEWALS_AT_ONCE)',
        '_Lane("-due", PACED_KINDS, 10_000)',
        ("tests/background/test_lanes.py",),
    ),
    Mutant(
        "message-stored-twice",
        "a message with a known id changes nothing",
        _INBOX,
        "values (%s, %s, %s, %s, %s)\non conflict do nothing",
        "values (%s, %s, %s || clock_timestamp()::text, %s, %s)\non conflict do nothing",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "message-claimed-by-two-workers",
        "two workers do not claim the same message",
        _INBOX,
        "limit %(of_a_merchant)s - t.running for update skip locked) due) next",
        "limit %(of_a_merchant)s - t.running) due) next",
        ("tests/processors/test_inbox_store.py::test_a_message_that_another_worker_is_claiming_is_left_to_it",),
    ),
    Mutant(
        "message-claimed-without-a-lease",
        "a claimed message is not given to another worker at once",
        _INBOX,
        "set tries = tries + 1, next_try_at = now() + make_interval(secs => %(lease_s)s),",
        "set tries = tries + 1, next_try_at = now(),",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "applied-message-claimed-again",
        "a message that was applied is not tried again",
        _INBOX,
        "p.handled_at is null and p.next_try_at <= now() and not exists (",
        "p.next_try_at <= now() and not exists (",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "applied-message-applied-again-on-receipt",
        "a message that was applied is not applied again when it arrives again",
        _CONSUMER,
        "        if received.handled_at is None:",
        "        if True:",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "messages-of-a-merchant-without-a-limit",
        "a merchant has no more messages at once than its limit",
        _INBOX,
        "limit %(of_a_merchant)s - t.running for update",
        "limit %(of_a_merchant)s for update",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "messages-claimed-not-in-turn",
        "a claim takes messages from each merchant in turn",
        _INBOX,
        "order by t.running + next.n, t.had_turn, t.merchant_id",
        "order by t.merchant_id",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "merchants-not-in-turn-between-claims",
        "the next claim begins after the merchant that was last",
        _INBOX,
        "self._last = max(turns, default=(False, self._last))[1]",
        "assert turns is not None",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "two-messages-of-an-order-at-once",
        "a message is left while another one of its order is claimed",
        _INBOX,
        "(o.claimed_until > now() or (o.next_try_at",
        "(false or (o.next_try_at",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "messages-of-an-order-out-of-order",
        "of one order the oldest message is claimed first",
        _INBOX,
        "(o.received_at, o.processor, o.message_id) < (p.received_at",
        "(o.received_at, o.processor, o.message_id) > (p.received_at",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "lease-broken-by-another-message-of-the-order",
        "a message that is being tried keeps its lease when another message of its order is applied",
        _INBOX,
        "\n   and coalesce(m.claimed_until, '-infinity') <= now()",
        "",
        ("tests/processors/test_inbox_store.py",),
    ),
    Mutant(
        "messages-that-name-no-order-at-once",
        "one process applies the messages of an order one after the other, those that name no order included",
        "src/ledger/background/inbox/message_handlers.py",
        "async with self._locks.setdefault(order_id, asyncio.Lock()):",
        "async with asyncio.Lock():",
        ("tests/background/test_inbox.py",),
    ),
    Mutant(
        "slots-of-a-merchant-without-a-limit",
        "a merchant fills its own slots and no others",
        _FAIR_SLOTS,
        "if self.running[each] < self.of_a_merchant), None)",
        "), None)",
        ("tests/background/test_fair_slots.py",),
    ),
    Mutant(
        "slots-of-a-merchant-while-half-are-taken",
        "a merchant gets more than its own slots only while more than half of all are free",
        _FAIR_SLOTS,
        "self.free > self._half",
        "self.free",
        ("tests/background/test_fair_slots.py",),
    ),
    Mutant(
        "slots-not-in-turn",
        "of the merchants that wait, each gets a slot in turn",
        _FAIR_SLOTS,
        "self._waiting[merchant_id] = turns  # behind",
        "self._waiting = {merchant_id: turns, **self._waiting}  # behind",
        ("tests/background/test_fair_slots.py",),
    ),
    Mutant(
        "slot-kept-after-a-failure",
        "work that fails frees its slot",
        _FAIR_SLOTS,
        "        self._release(merchant_id, turn)\n        self._has_ended",
        "        if task.cancelled() or not task.exception():\n            self._release(merchant_id, turn)\n"
        "        self._has_ended",
        ("tests/background/test_fair_slots.py",),
    ),
    Mutant(
        "recovery-waits-for-look-ups-that-hang",
        "a sweep of the recovery does not wait for the look-ups of another merchant",
        _RECOVERY,
        "            self._begin,\n            stop,",
        "            self.sweep,\n            stop,",
        ("tests/background/test_recovery.py::test_look_ups_that_hang_fill_the_slots_of_their_merchant_alone",),
    ),
    Mutant(
        "erasure-that-fails-again-at-once",
        "an erasure that fails waits, so that the next ones have their turn",
        "src/ledger/background/erasure.py",
        "skipped = {*self._failed, *self._slots.keys}",
        "skipped = {*self._slots.keys}",
        ("tests/operations/test_erasure.py",),
    ),
    Mutant(
        "jobs-of-a-merchant-without-a-limit",
        "a merchant has four jobs at once in a process",
        _FAIR_QUEUE,
        "if count >= _OF_A_MERCHANT]",
        "if count >= 1_000_000]",
        ("tests/background/test_jobs.py",),
    ),
    Mutant(
        "jobs-not-in-turn",
        "the merchants' jobs are taken in turn",
        _FAIR_QUEUE,
        "order by value <= %(after)s, value) turn",
        "order by value) turn",
        ("tests/background/test_jobs.py",),
    ),
    Mutant(
        "timers-not-in-turn",
        "a merchant with many due timers delays another one's by one batch",
        _TIMERS,
        "count = await _take(connection, jobs, next_ones)",
        "count = await _take(connection, jobs, first)",
        ("tests/background/test_sweeps.py",),
    ),
    Mutant(
        "deposit-in-another-currency",
        "money in another currency pays nothing",
        "src/ledger/background/inbox/message_handlers.py",
        "if message.currency != order.terms.currency:",
        "if False:",
        ("tests/background/test_inbox.py",),
    ),
    Mutant(
        "refund-confirmed-with-another-amount",
        "a refund is confirmed only with its own amount",
        "src/ledger/background/inbox/message_handlers.py",
        "        if message.amount != part.amount:",
        "        if False:",
        ("tests/background/test_inbox.py",),
    ),
    Mutant(
        "message-of-another-processor",
        "a processor's message changes only the payments that this processor has",
        "src/ledger/background/inbox/message_handlers.py",
        "    if payment.processor != message.processor:\n        return False",
        "    if False:\n        return False",
        ("tests/background/test_inbox.py",),
    ),
    Mutant(
        "message-signature-not-checked",
        "a message that its processor did not sign is refused",
        _MESSAGES,
        "if not is_valid or not _is_now(signed.timestamp, now):",
        "if not _is_now(signed.timestamp, now):",
        ("tests/processors/test_messages.py",),
    ),
    Mutant(
        "message-replayed-later",
        "a signed message cannot be replayed after five minutes",
        _MESSAGES,
        "if not is_valid or not _is_now(signed.timestamp, now):",
        "if not is_valid:",
        ("tests/processors/test_messages.py",),
    ),
    Mutant(
        "clock-goes-back",
        "a merchant's clock never goes back",
        "src/ledger/background/clock/advance.py",
        "    if until < now:",
        "    if False:",
        ("tests/api/sandbox/test_clock.py",),
    ),
)

READS: Final = (
    Mutant(
        "order-of-any-merchant",
        "an order is shown only to its own merchant",
        _ORDER_TABLE,
        """\
     where o.merchant_id = q.merchant_id and o.order_id between q.order_id and q.order_id
     order by o.order_id limit 1) own on true
  left join lateral (
    select o.order_id, o.version, o.status, o.due_at, o.head, o.payments, o.customer_id
      from claim k cross join lateral (
        select order_id, version, status, due_at, head, payments, customer_id from payment_order
         where merchant_id = k.merchant_id and order_id between k.stream_id and k.stream_id order by order_id limit 1) o
     where own.customer_id is null
       and k.merchant_id = q.merchant_id and k.kind = 1 and k.key = q.reference
     limit 1) named on true
  join lateral (
    select doc from customer
     where merchant_id = q.merchant_id and customer_id =""",
        """\
     where o.order_id between q.order_id and q.order_id
     order by o.order_id limit 1) own on true
  left join lateral (
    select o.order_id, o.version, o.status, o.due_at, o.head, o.payments, o.customer_id
      from claim k cross join lateral (
        select order_id, version, status, due_at, head, payments, customer_id from payment_order
         where merchant_id = k.merchant_id and order_id between k.stream_id and k.stream_id order by order_id limit 1) o
     where own.customer_id is null
       and k.merchant_id = q.merchant_id and k.kind = 1 and k.key = q.reference
     limit 1) named on true
  join lateral (
    select doc from customer
     where customer_id =""",
        ("tests/projections/test_reading.py",),
    ),
    Mutant(
        "external-id-of-any-merchant",
        "an external id shows only an order of its own merchant",
        _ORDER_TABLE,
        """\
       and k.merchant_id = q.merchant_id and k.kind = 1 and k.key = q.reference
     limit 1) named on true
  join lateral (
    select doc from customer
     where merchant_id = q.merchant_id and customer_id =""",
        """\
       and k.kind = 1 and k.key = q.reference
     limit 1) named on true
  join lateral (
    select doc from customer
     where customer_id =""",
        ("tests/projections/test_reading.py",),
    ),
    Mutant(
        "list-of-any-merchant",
        "the list of orders reads only its own merchant's orders",
        _LISTS,
        "select created_at, order_id from payment_order\n where merchant_id = %(merchant_id)s {in_range}",
        "select created_at, order_id from payment_order\n where true {in_range}",
        ("tests/projections/test_lists.py",),
    ),
    Mutant(
        "filtered-list-of-any-merchant",
        "the list of orders by status reads only its own merchant's orders",
        _LISTS,
        "   where merchant_id = %(merchant_id)s and {column} = wanted.value {in_range}",
        "   where {column} = wanted.value {in_range}",
        ("tests/projections/test_lists.py", "tests/projections/test_lists_filters.py"),
    ),
    Mutant(
        "total-of-any-merchant",
        "the total of a list counts only its own merchant's orders",
        _LISTS,
        "where merchant_id = %(merchant_id)s and day >= %(first_day)s and day < %(end_day)s {status}), 0)::int8",
        "where day >= %(first_day)s and day < %(end_day)s {status}), 0)::int8",
        ("tests/projections/test_lists.py",),
    ),
    Mutant(
        "partial-day-of-any-merchant",
        "the orders of a partial day are counted only of their own merchant",
        _LISTS,
        "where merchant_id = %(merchant_id)s\n             and created_at >= %(head_from)s",
        "where true\n             and created_at >= %(head_from)s",
        ("tests/projections/test_lists.py",),
    ),
    Mutant(
        "search-in-any-merchant",
        "a search finds only its own merchant's orders",
        _SEARCH,
        "where b.merchant_id = %(merchant_id)s and b.kind = 1 and %(folded)s is not null {{in_span}}",
        "where b.kind = 1 and %(folded)s is not null {{in_span}}",
        ("tests/projections/test_lists_search.py",),
    ),
    Mutant(
        "search-counters-of-any-merchant",
        "the counters of a short text are those of its own merchant",
        _SEARCH,
        """\
  select coalesce((select orders from search_count
                    where merchant_id = %(merchant_id)s and kind = 1 and text = %(folded)s), 0)
""",
        """\
  select coalesce((select sum(orders)::int8 from search_count
                    where kind = 1 and text = %(folded)s), 0)
""",
        ("tests/projections/test_lists_search.py",),
    ),
    Mutant(
        "in-flight-folded-too-far",
        "an order that settles while it is read is shown as it was found",
        "src/projections/orders/table.py",
        "events[:version]",
        "events",
        ("tests/projections/test_in_flight.py",),
    ),
    Mutant(
        "stamping-rendered-in-flight",
        "an order whose document is being stamped is in flight as well",
        "src/projections/orders/table.py",
        "if order.call_deadline_at is None else",
        "if order.open_intent is None else",
        ("tests/projections/test_in_flight.py",),
    ),
    Mutant(
        "page-with-a-cancelled-fold",
        "a request that is cancelled leaves the folds of a shared page to the others",
        "src/projections/lists/shared_pages.py",
        "asyncio.shield(self._folding)",
        "self._folding",
        ("tests/projections/test_in_flight.py",),
    ),
)

HTTP: Final = (
    Mutant(
        "key-without-its-scope",
        "a key that may only read cannot write",
        f"{_HTTP}/auth.py",
        "if scope is not None and not principal.may(scope):",
        "if False:",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "refund-with-a-key-that-reads",
        "a refund needs a key that may write",
        "src/api/orders/refund.py",
        "from api.http.endpoint import WRITE, ScopedOperation",
        "from api.http.endpoint import READ as WRITE, ScopedOperation",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "sandbox-in-production",
        "production has no route that moves a clock or reports a deposit",
        "src/api/app.py",
        'if settings.environment == "production":',
        "if False:",
        ("tests/api/sandbox/test_payer_pages.py",),
    ),
    Mutant(
        "key-after-its-end",
        "a key that has expired is refused",
        f"{_HTTP}/auth.py",
        "if principal.expires_at is not None and principal.expires_at <= self._now():",
        "if False:",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "revoked-key",
        "a key that was revoked is refused",
        f"{_HTTP}/auth.py",
        "principal = None if found is None or found.revoked_at is not None else self._principal(found)",
        "principal = None if found is None else self._principal(found)",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "key-of-the-other-environment",
        "a key of the sandbox is not looked up in production",
        f"{_HTTP}/auth.py",
        "if secret.startswith(self._other_prefixes):",
        "if False:",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "merchant-header-not-checked",
        "a merchant header that contradicts the key is refused",
        f"{_HTTP}/auth.py",
        "elif not hmac.compare_digest(header.strip().lower(), str(principal.merchant_id).encode()):",
        "elif False:",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "declared-length-not-checked",
        "a body that is declared as too long is refused before it is read",
        f"{_HTTP}/request.py",
        "if declared.isdigit() and int(declared[:20]) > limit:",
        "if False:",
        ("tests/api/http/test_middleware.py",),
    ),
    Mutant(
        "body-without-a-limit",
        "a body of undeclared length is read only up to the limit",
        f"{_HTTP}/request.py",
        "            if size > limit:\n                raise _too_large(limit)",
        "",
        ("tests/api/http/test_middleware.py", "tests/api/http/test_hostile_clients.py"),
    ),
    Mutant(
        "headers-without-a-limit",
        "long headers are refused",
        f"{_HTTP}/middleware.py",
        'if size > _HEADER_BYTES_MAX or len(scope["headers"]) > _HEADERS_MAX:',
        "if False:",
        ("tests/api/http/test_middleware.py",),
    ),
    Mutant(
        "rate-limit-not-applied",
        "a key makes no more requests than its limits allow",
        f"{_HTTP}/endpoint.py",
        "deps.limiter.admit(principal.key_id, principal.per_minute, principal.per_second)",
        "()",
        ("tests/api/http/test_rate_limits.py",),
    ),
    Mutant(
        "rate-limit-never-reached",
        "a request beyond the limit is refused",
        f"{_HTTP}/rate_limits.py",
        "        if wait_s > _ROUNDING:",
        "        if False:",
        ("tests/api/http/test_rate_limits.py",),
    ),
    Mutant(
        "refused-request-counts",
        "a client that keeps asking does not keep itself out",
        f"{_HTTP}/rate_limits.py",
        "            if wait_s <= _ROUNDING:",
        "            if True:",
        ("tests/api/http/test_rate_limits.py",),
    ),
    Mutant(
        "message-under-another-processors-name",
        "a processor's key signs only its own messages",
        "src/api/system/processor_messages.py",
        "if message.processor != processor:",
        "if False:",
        ("tests/api/test_processor_messages.py",),
    ),
    Mutant(
        "card-number-in-a-text",
        "no text that is stored holds a card number",
        _STORED_TEXT,
        "    if contains_pan(text):\n        raise card_number_in(field)",
        "",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "card-number-in-metadata",
        "no metadata that is stored holds a card number",
        _STORED_TEXT,
        "    if contains_pan(msgspec.json.encode(content).decode()):",
        "    if False:",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "security-code-in-a-text",
        "no text that is stored holds a card's security code",
        _STORED_TEXT,
        "    if contains_cvc(text):",
        "    if False:",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "security-code-in-metadata",
        "no metadata that is stored holds a card's security code",
        _STORED_TEXT,
        "    if json_contains_cvc(content):",
        "    if False:",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "card-number-in-an-order",
        "the texts of a new order are searched for card numbers",
        "src/api/orders/create.py",
        'check_stored_text(parsed, "", body, sent_pan(sent.payment_method))',
        "pass",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "card-number-in-a-charge",
        "the texts of a charge are searched for card numbers",
        "src/api/orders/charge.py",
        'check_stored_text(parsed, "payment", body, sent_pan(sent.payment_method))',
        "pass",
        ("tests/api/fields/test_stored_text.py",),
    ),
    Mutant(
        "card-number-in-a-part",
        "the texts of a part of an order are searched for card numbers",
        "src/api/orders/add_payment.py",
        'check_stored_text(parsed, "payment", body, sent_pan(sent.payment_method))',
        "pass",
        ("tests/api/http/test_malformed_bodies.py",),
    ),
    Mutant(
        "card-number-in-a-refund",
        "the texts of a refund are searched for card numbers",
        "src/api/orders/refund.py",
        'check_stored_text(_without_clabe(parsed), "", body, None)',
        "pass",
        ("tests/api/http/test_malformed_bodies.py",),
    ),
    Mutant(
        "card-number-in-a-cancellation",
        "the reason of a cancellation is searched for card numbers",
        "src/api/orders/cancel.py",
        'check_stored_text(parsed, "", body, None)',
        "pass",
        ("tests/api/http/test_malformed_bodies.py",),
    ),
    Mutant(
        "card-number-in-device-data",
        "what the payer's browser reports is searched for card numbers",
        "src/api/orders/authenticate.py",
        '            device_information=sent.device_information,\n            )\n            check_stored_text(parsed, "", body, None)',
        "            device_information=sent.device_information,\n            )",
        ("tests/api/http/test_malformed_bodies.py",),
    ),
    Mutant(
        "card-number-in-a-validation",
        "the transaction that a payer came back from is searched for card numbers",
        "src/api/orders/authenticate.py",
        """\
            transaction_id=printable(sent.authentication_transaction_id, "authenticationTransactionId")
        )
        check_stored_text(parsed, "", body, None)
""",
        """\
            transaction_id=printable(sent.authentication_transaction_id, "authenticationTransactionId")
        )
""",
        ("tests/api/http/test_malformed_bodies.py",),
    ),
    Mutant(
        "card-number-in-an-idempotency-key",
        "an idempotency key is no card number",
        f"{_HTTP}/idempotency_key.py",
        '    check_card_data(key, "Idempotency-Key")',
        "",
        ("tests/api/http/test_idempotency_key.py",),
    ),
    Mutant(
        "card-number-in-a-request-id",
        "a request id that is logged and stored is no card number",
        f"{_HTTP}/request.py",
        "        if not contains_pan(text):",
        "        if True:",
        ("tests/api/http/test_middleware.py",),
    ),
)

_METHODS: Final = "src/ledger/operations/payment_methods"
_SAVED: Final = "tests/operations/test_saved_cards.py"

VAULT: Final = (
    Mutant(
        "saved-card-deleted-meanwhile",
        "a payment by a saved card is announced only while the card is saved",
        f"{_METHODS}/charge.py",
        "changes=(unchanged,),",
        "changes=(),",
        (_SAVED,),
    ),
    Mutant(
        "deleted-method-comes-back",
        "a number whose method was deleted is kept under a new id",
        f"{_METHODS}/save.py",
        "if methods is None or not methods.had(method_id):",
        "if True:",
        (_SAVED,),
    ),
    Mutant(
        "card-kept-during-its-sweep",
        "a number that a request has just kept again is not destroyed by a sweep",
        "src/ledger/vault/vault.py",
        """\
delete from vault_card where merchant_id = %s and payment_method_id = %s and touched_at = %s and not settled
""",
        """\
delete from vault_card where merchant_id = %s and payment_method_id = %s and %s is not null and not settled
""",
        (_SAVED,),
    ),
    Mutant(
        "card-of-an-erased-customer",
        "no card of an erased customer is saved",
        f"{_METHODS}/save.py",
        "if customer is None or customer.erased:",
        "if customer is None:",
        (_SAVED,),
    ),
    Mutant(
        "cards-after-an-erasure",
        "an erased customer's numbers are destroyed",
        "src/ledger/operations/erasure/erase_customer.py",
        "    if ledger.vault is not None:",
        "    if False:",
        (_SAVED,),
    ),
    Mutant(
        "methods-after-an-erasure",
        "the commit that erases a customer deletes the saved methods too",
        "src/ledger/operations/erasure/erase_customer.py",
        "    if methods is not None:",
        "    if False:",
        ("tests/api/payment_methods/test_payment_methods.py::test_a_deleted_customers_methods_go_too",),
    ),
    Mutant(
        "number-sent-as-stored",
        "the processor is informed that a card number is stored",
        f"{_PIPELINE}/processor_requests.py",
        "saved_card=secrets.saved_card is not None,",
        "saved_card=False,",
        (_SAVED,),
    ),
    Mutant(
        "vault-open-to-the-application",
        "the application's role has no right on the table of card numbers",
        "src/ledger/postgres/prepare.py",
        """\
        connection.execute(sql.SQL("revoke all on {} from {}").format(table, sql.Identifier(application)))
""",
        """\
        pass
""",
        ("tests/postgres/test_prepare.py",),
    ),
    Mutant(
        "fingerprint-of-every-customer",
        "equal numbers of two customers have different fingerprints",
        "src/ledger/vault/sealed_card.py",
        "about = _FINGERPRINT_LABEL + merchant_id.bytes + customer_id.bytes",
        "about = _FINGERPRINT_LABEL",
        ("tests/vault/test_vault.py",),
    ),
    Mutant(
        "card-details-in-an-update",
        "an update of a payment method refuses card details",
        "src/api/payment_methods/update.py",
        "        if name in _OF_THE_CARD:",
        "        if False:",
        ("tests/api/payment_methods/test_update_input.py",),
    ),
    Mutant(
        "card-number-in-billing-details",
        "billing details hold no card number",
        "src/api/payment_methods/update.py",
        """\
    check_stored_text(parsed, "", body, None)
""",
        "",
        ("tests/api/payment_methods/test_update_input.py",),
    ),
)


_RACES: Final = "tests/operations/test_customer_races.py"
_OLDER_RELEASE: Final = "tests/projections/test_customers_of_an_older_release.py"
_CUSTOMER_ROUTES: Final = "tests/api/customers/test_customer_routes.py"

CUSTOMERS: Final = (
    Mutant(
        "source-erased-before-the-commit",
        "a customer is not derived from one that was erased meanwhile",
        "src/ledger/operations/customers/create.py",
        "*([] if source is None else [source])",
        "*[]",
        (f"{_RACES}::test_a_source_that_was_erased_between_the_look_up_and_the_commit_is_not_found",),
    ),
    Mutant(
        "erased-customer-is-changed",
        "an erased customer is found by no request",
        "src/ledger/operations/customers/requests.py",
        "    if found is None or found.customer.erased:",
        "    if found is None:",
        (f"{_CUSTOMER_ROUTES}::test_an_erased_customer_is_gone_and_its_orders_stay",),
    ),
    Mutant(
        "erased-answer-is-repeated",
        "an answer is not repeated once the customer is erased",
        "src/ledger/operations/customers/requests.py",
        "    if any(isinstance(event, CustomerErased) for event in result.later):",
        "    if False:",
        (f"{_CUSTOMER_ROUTES}::test_a_repeated_key_gets_the_first_answer",),
    ),
    Mutant(
        "erased-customer-is-read",
        "an erased customer cannot be read",
        "src/projections/customers.py",
        "coalesce(own.customer_id, named.stream_id) and not erased",
        "coalesce(own.customer_id, named.stream_id)",
        (f"{_CUSTOMER_ROUTES}::test_an_erased_customer_is_gone_and_its_orders_stay",),
    ),
    Mutant(
        "erased-customer-is-listed",
        "an erased customer is in no list",
        "src/projections/lists/customers.py",
        "not erased {beyond}",
        "true {beyond}",
        ("tests/api/customers/test_customer_list.py::test_the_list_is_newest_first_without_the_erased",),
    ),
    Mutant(
        "erased-customer-is-related",
        "an erased customer is not shown among the related ones",
        "src/projections/lists/related_customers.py",
        "customer_id = f.customer_id and not erased",
        "customer_id = f.customer_id",
        (f"{_CUSTOMER_ROUTES}::test_a_source_is_named_by_either_id_and_shown_by_the_services",),
    ),
    Mutant(
        "customers-of-an-older-release-uncounted",
        "a customer that a process of an older release creates is counted",
        "src/ledger/postgres/migrations/0021_customers.sql",
        "from added where not erased group",
        "from added where false group",
        (_OLDER_RELEASE,),
    ),
    Mutant(
        "customers-of-an-older-release-unfound",
        "a search finds what a process of an older release has written",
        "src/ledger/postgres/migrations/0021_customers.sql",
        "  new.text_folded := text_now;\n",
        "",
        (_OLDER_RELEASE,),
    ),
    Mutant(
        "erased-by-an-older-release",
        "an erasure by a process of an older release removes the metadata too",
        "src/ledger/postgres/migrations/0021_customers.sql",
        "    new.extras := null;",
        "    null;",
        (_OLDER_RELEASE,),
    ),
    Mutant(
        "customer-metadata-in-clear",
        "the metadata of a customer is sealed in the log",
        "src/ledger/domain/customers/events.py",
        '    CustomerMetadataChanged: ("metadata",),\n',
        "",
        ("tests/operations/test_sealing.py",),
    ),
    Mutant(
        "customer-preferences-in-clear",
        "the preferences of a customer are sealed in the log",
        "src/ledger/domain/customers/events.py",
        '    NotificationPreferencesChanged: ("preferences",),\n',
        "",
        ("tests/operations/test_sealing.py",),
    ),
    Mutant(
        "customers-without-their-scope",
        "a key for orders does not read customers",
        "src/api/customers/show.py",
        "    Scope.CUSTOMERS_READ,",
        "    Scope.ORDERS_READ,",
        (f"{_CUSTOMER_ROUTES}::test_each_operation_needs_its_scope",),
    ),
    Mutant(
        "one-wrong-field-hides-another",
        "a 400 names every wrong field of a customer",
        "src/api/decoding/bodies.py",
        "            except msgspec.ValidationError:\n                return _decode_fields",
        "            except msgspec.ValidationError as error:\n                raise _explained(str(error), self._schema) "
        "from None\n                return _decode_fields",
        (f"{_CUSTOMER_ROUTES}::test_every_wrong_field_is_named_at_once",),
    ),
)


_EMBEDDED: Final = "src/ledger/postgres/embedded"
_ACCESS_TESTS: Final = "tests/postgres/test_embedded_access.py"

EMBEDDED: Final = (
    Mutant(
        "embedded-with-the-whole-environment",
        "no process of the embedded server has the service's secrets in its environment",
        f"{_EMBEDDED}/account.py",
        ' if name in _KEPT or name.startswith("LC_")}',
        "}",
        (f"{_ACCESS_TESTS}::test_no_secret_is_in_the_environment_of_any_process_of_the_server",),
    ),
    Mutant(
        "embedded-under-nobody",
        "the embedded server's account is its own",
        f"{_EMBEDDED}/account.py",
        'NAME: Final = "payment-ledger"',
        'NAME: Final = "nobody"',
        (f"{_ACCESS_TESTS}::test_the_account_is_not_shared",),
    ),
    Mutant(
        "two-starts-create-the-account",
        "of two starts at once, one creates the account",
        f"{_EMBEDDED}/account.py",
        "        fcntl.flock(lock, fcntl.LOCK_EX)\n",
        "",
        (f"{_ACCESS_TESTS}::test_starts_at_once_create_one_account",),
    ),
    Mutant(
        "account-with-another-name",
        "an account whose number another one has is refused",
        f"{_EMBEDDED}/account.py",
        "if entry.pw_uid == 0 or name_of(entry.pw_uid) != name:",
        "if entry.pw_uid == 0:",
        (f"{_ACCESS_TESTS}::test_an_account_that_shares_its_number_is_refused",),
    ),
    Mutant(
        "embedded-trusts-its-socket",
        "the embedded server asks the kernel which user is at the socket",
        f"{_EMBEDDED}/authentication.py",
        "local all all peer map=ledger",
        "local all all trust",
        (f"{_ACCESS_TESTS}::test_another_user_of_the_machine_cannot_connect",),
    ),
    Mutant(
        "rules-of-the-cluster",
        "no file of the cluster names other rules of authentication",
        f"{_EMBEDDED}/server.py",
        ", **authentication_settings(directory)}",
        "}",
        (f"{_ACCESS_TESTS}::test_rules_of_an_earlier_release_are_replaced",),
    ),
    Mutant(
        "rules-of-an-earlier-release",
        "each start replaces the rules that trust every user",
        f"{_EMBEDDED}/server.py",
        "        write_authentication(directory, self.cluster.account)\n",
        "",
        (f"{_ACCESS_TESTS}::test_rules_of_an_earlier_release_are_replaced",),
    ),
    Mutant(
        "rules-through-a-link",
        "root writes the rules beside a link that the server's account has put there",
        f"{_EMBEDDED}/authentication.py",
        "    with suppress(FileNotFoundError):\n        os.unlink(unfinished, dir_fd=folder)\n"
        "    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)",
        "    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder)",
        (f"{_ACCESS_TESTS}::test_rules_are_written_beside_a_link_and_not_through_it",),
    ),
    Mutant(
        "files-stay-with-the-earlier-account",
        "the account takes over the files of an earlier release",
        f"{_EMBEDDED}/server.py",
        "        take_over(directory, self.cluster.sockets, self.cluster.account)\n",
        "",
        (f"{_ACCESS_TESTS}::test_files_of_the_earlier_account_are_taken_over_once",),
    ),
    Mutant(
        "files-taken-over-from-a-server-that-runs",
        "files are taken over after the last process of the earlier server has ended",
        f"{_EMBEDDED}/server.py",
        "pid = process_in(self.cluster.directory) if is_former else 0",
        "pid = 0",
        (f"{_ACCESS_TESTS}::test_the_files_of_a_server_that_still_runs_are_left_to_it",),
    ),
    Mutant(
        "files-of-any-owner",
        "a file of another user in the cluster stays that user's",
        f"{_EMBEDDED}/ownership.py",
        "        if os.fstat(descriptor).st_uid == former:\n",
        "        if True:\n",
        (f"{_ACCESS_TESTS}::test_only_files_of_the_earlier_account_change_their_owner",),
    ),
    Mutant(
        "files-behind-a-link",
        "a link in the cluster gives no file outside to the account",
        f"{_EMBEDDED}/ownership.py",
        "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK",
        "os.O_RDONLY | os.O_NONBLOCK",
        (f"{_ACCESS_TESTS}::test_only_files_of_the_earlier_account_change_their_owner",),
    ),
    Mutant(
        "cluster-of-another-user",
        "root takes over no cluster in another user's directory",
        f"{_EMBEDDED}/ownership.py",
        " or (parent.st_uid == 0 and not parent.st_mode & 0o022):",
        " or True:",
        (f"{_ACCESS_TESTS}::test_a_cluster_of_another_user_is_not_taken_over",),
    ),
)


KEYS: Final = (
    Mutant(
        "key-gives-any-scope",
        "a key gives only scopes that it has",
        _MERCHANT_DECIDE,
        "if giver.scopes and (lacking or not scopes):",
        "if False:",
        ("tests/domain/test_merchants.py",),
    ),
    Mutant(
        "key-gives-all-scopes",
        "a limited key gives no key without scopes, which allows everything",
        _MERCHANT_DECIDE,
        "if giver.scopes and (lacking or not scopes):",
        "if giver.scopes and lacking:",
        ("tests/domain/test_merchants.py",),
    ),
    Mutant(
        "key-gives-any-validity",
        "a key gives no validity beyond its own",
        _MERCHANT_DECIDE,
        "if giver.expires_at is not None and (expires_at is None or expires_at > giver.expires_at):",
        "if False:",
        ("tests/domain/test_merchants.py",),
    ),
    Mutant(
        "key-acts-after-its-end",
        "a key that another process has revoked meanwhile makes no other",
        _MERCHANT_DECIDE,
        "if key is None or not key.is_valid(real_at):",
        "if key is None:",
        ("tests/domain/test_merchants.py", "tests/api/merchant/test_api_keys.py"),
    ),
    Mutant(
        "last-key-revokes-itself",
        "a merchant keeps a key that can manage keys",
        _MERCHANT_DECIDE,
        "if command.acting_key_id is not None and not any(",
        "if False and not any(",
        ("tests/domain/test_merchants.py",),
    ),
    Mutant(
        "rotation-lengthens-a-key",
        "a rotated key does not outlive its own expiry",
        _MERCHANT_DECIDE,
        "until = command.replaced_until if old.expires_at is None else min(command.replaced_until, old.expires_at)",
        "until = command.replaced_until",
        ("tests/domain/test_merchants.py",),
    ),
    Mutant(
        "change-of-a-merchant-not-heard",
        "a revoked key is refused by every process before its caches expire",
        "src/api/http/dependencies.py",
        "            authenticator.forget(merchant_id)\n",
        "",
        ("tests/api/merchant/test_api_keys.py",),
    ),
    Mutant(
        "change-during-a-look-up",
        "a key that was looked up before its revocation is not cached after it",
        f"{_HTTP}/auth.py",
        "if changes != self._changes:",
        "if False:",
        ("tests/api/http/test_auth.py",),
    ),
    Mutant(
        "secret-in-a-repeated-answer",
        "a repeated creation shows no secret, least of all one that is not the key's",
        "src/api/merchant/documents.py",
        "secret = None if result.repeated else key.secret",
        "secret = key.secret",
        ("tests/api/merchant/test_api_keys.py",),
    ),
    Mutant(
        "merchant-lifts-its-rate-limits",
        "only an operator changes the rate limits",
        "src/api/merchant/settings.py",
        "if value != getattr(current, field):",
        "if False:",
        ("tests/api/merchant/test_settings.py",),
    ),
    Mutant(
        "keys-of-every-merchant",
        "a merchant reads its own keys only",
        "src/projections/merchants.py",
        "using (key_id)\n where merchant_id = %(merchant_id)s order by",
        "using (key_id)\n where true or merchant_id = %(merchant_id)s order by",
        ("tests/api/isolation/test_isolation.py",),
    ),
    Mutant(
        "misspelt-names-ignored",
        "a misspelt field of a body moves no money",
        "src/api/decoding/unknown_names.py",
        "        if self.errors:\n",
        "        if False:\n",
        ("tests/api/http/test_unknown_names.py",),
    ),
    Mutant(
        "misspelt-parameters-ignored",
        "a misspelt parameter shows no other orders",
        "src/api/decoding/query.py",
        "    for misspelt in unknown.errors:\n",
        "    for misspelt in ():\n",
        ("tests/api/http/test_unknown_names.py",),
    ),
    Mutant(
        "card-numbers-in-the-header",
        "no header repeats a card number",
        "src/api/decoding/unknown_names.py",
        "if contains_pan(name) or contains_cvc(name):",
        "if False:",
        ("tests/api/http/test_unknown_names.py::test_the_header_is_short_and_repeats_no_card_number",),
    ),
    Mutant(
        "expired-keys-used",
        "an expired key is not shown as used",
        "src/api/http/auth.py",
        "principal is not None and (principal.expires_at is None or principal.expires_at > self._now()):",
        "principal is not None:",
        ("tests/api/http/test_auth.py::test_the_use_of_a_key_is_noted_where_it_is_looked_up_and_written_once",),
    ),
)

_DUE: Final = "src/ledger/domain/invoices/due.py"
_STAMPING: Final = "src/ledger/domain/invoices/decide/stamping.py"
_STAMP: Final = "src/ledger/operations/orders/invoices/stamp.py"
_CORE_TESTS: Final = "tests/domain/invoices/test_stamping.py"
_WORKER_TESTS: Final = "tests/background/test_stamping.py"

DOCUMENTS: Final = (
    Mutant(
        "document-sent-before-its-intent",
        "a document is sent to the provider once its intent is recorded",
        _STAMP,
        "    plan = await execute(uow, attempt, is_fact=step is not None)\n    return _started(plan.events)",
        "    planned = await attempt(None)\n"
        "    if (first := _started(planned.events)) is not None:\n"
        "        later = fold(evolve, await uow.order(order_id), planned.events)\n"
        "        document = later.invoices.document(first)\n"
        "        await stamp(uow.ledger, uow.merchant_id, later, document, document.intent)\n"
        "    plan = await execute(uow, attempt, is_fact=step is not None)\n    return _started(plan.events)",
        (f"{_WORKER_TESTS}::test_a_document_is_stamped_once_wherever_its_worker_ended",),
    ),
    Mutant(
        "document-sent-again-without-look-up",
        "a document whose outcome is unknown is looked up before it is sent again",
        _STAMPING,
        "if order.invoices is not None and order.invoices.open_intent is not None:\n        return []",
        "if False:\n        return []",
        (f"{_CORE_TESTS}::test_a_document_without_an_answer_waits_for_its_look_up", _WORKER_TESTS),
    ),
    Mutant(
        "document-not-found-too-early",
        "a document that is not found counts as never sent once that is final",
        "src/ledger/operations/orders/invoices/call.py",
        "return NotFound() if is_final else None",
        "return NotFound()",
        (f"{_WORKER_TESTS}::test_a_document_that_is_not_found_is_sent_again_only_once_that_is_final",),
    ),
    Mutant(
        "stamped-document-not-stored",
        "a stamp is recorded once the document's files are stored",
        "src/ledger/operations/orders/invoices/call.py",
        "        return _NOT_STORED\n",
        '        return Stamped(fiscal_uuid=answer.fiscal_uuid, invoice_id="", stamped_at=answer.stamped_at, xml_key="",\n'
        '                       pdf_key="", xml_sha256="")\n',
        (f"{_WORKER_TESTS}::test_a_document_is_stamped_once_wherever_its_worker_ended",),
    ),
    Mutant(
        "refused-document-overtaken",
        "a refused document holds the later ones of its order",
        "src/ledger/domain/orders/invoices/state.py",
        "if each.status is not DocumentStatus.EMITTED), None)",
        "if each.status is DocumentStatus.PENDING), None)",
        (f"{_CORE_TESTS}::test_a_refused_document_holds_the_later_ones_and_is_repeated_after_its_pauses",),
    ),
    Mutant(
        "refused-document-without-pause",
        "a timer repeats a refused document after its pause",
        _STAMPING,
        "return document.retry_at is not None and document.retry_at <= command.at",
        "return True",
        (f"{_CORE_TESTS}::test_a_refused_document_holds_the_later_ones_and_is_repeated_after_its_pauses",),
    ),
    Mutant(
        "stamp-recorded-twice",
        "an outcome is recorded once",
        _STAMPING,
        "if document is None or document.stamp is not None:\n        return []",
        "if document is None:\n        return []",
        (_CORE_TESTS,),
    ),
    Mutant(
        "credit-note-with-another-amount",
        "an announced document keeps its amount, whatever comes later",
        "src/ledger/domain/invoices/movements.py",
        "amount = needed if document is None else _frozen_amount(document)",
        "amount = needed",
        (f"{_CORE_TESTS}::test_a_credit_note_of_an_older_release_keeps_its_amount",),
    ),
    Mutant(
        "refund-of-a-document-divided-anew",
        "the parts of a refund that a document states stay as they are",
        "src/ledger/domain/orders/evolve/cancellation.py",
        "return replace(payment, frozen_refunds=frozen)",
        "return payment",
        (f"{_CORE_TESTS}::test_a_refund_that_a_document_states_is_never_divided_anew",),
    ),
    Mutant(
        "summary-counts-payments-without-capture",
        "the summary counts the payments that the interface lists",
        _DUE,
        "for parts in by_payment.values() if parts[0].movement.payment.status in _ELIGIBLE]",
        "for parts in by_payment.values()]",
        (f"{_CORE_TESTS}::test_a_payment_that_is_being_refunded_is_not_counted",),
    ),
    Mutant(
        "summary-hides-a-failure",
        "a payment with a refused receipt counts as failed",
        _DUE,
        "precedence = (DocumentStatus.FAILED, DocumentStatus.PENDING, DocumentStatus.EMITTED)",
        "precedence = (DocumentStatus.EMITTED, DocumentStatus.PENDING, DocumentStatus.FAILED)",
        (_CORE_TESTS,),
    ),
    Mutant(
        "fully-stamped-with-a-document-missing",
        "an order is fully stamped once every document is",
        _DUE,
        "is_fully_stamped=all(_status_of([each]) is DocumentStatus.EMITTED for each in due),",
        "is_fully_stamped=all(_status_of([each]) is not DocumentStatus.FAILED for each in due),",
        (_CORE_TESTS, "tests/api/invoices/test_split_order_documents.py"),
    ),
    Mutant(
        "receiver-that-the-catalogues-exclude",
        "a partial receiver is checked together with what the order has",
        _STAMPING,
        "_checked(combined(command.fiscal, fiscal_of(order)))",
        "combined(command.fiscal, fiscal_of(order))",
        (f"{_CORE_TESTS}::test_a_partial_receiver_is_checked_together_with_what_the_order_has",),
    ),
    Mutant(
        "warning-before-the-stamp",
        "what is due is stamped before a deadline is warned of",
        "src/ledger/background/reactions/order_timers.py",
        "    await stamp_due(ledger, merchant_id, order_id)\n    await warn_of_deadline(",
        "    await warn_of_deadline(",
        (f"{_WORKER_TESTS}::test_what_is_due_is_stamped_before_a_deadline_is_warned_of",),
    ),
    Mutant(
        "warning-during-the-stamp",
        "a deadline is not warned of while the order's documents are being stamped",
        "src/ledger/domain/invoices/decide/deadlines.py",
        "    if due_at is None or is_being_stamped(order, command):",
        "    if due_at is None:",
        ("tests/domain/invoices/test_evolve_invoices.py",),
    ),
    Mutant(
        "warning-lost-beside-a-crashed-call",
        "a warning that a call delays is tried again",
        "src/ledger/operations/orders/invoices/deadline.py",
        "            raise StampUnderWay",
        "            pass",
        (f"{_WORKER_TESTS}::test_a_warning_that_is_due_during_a_crashed_call_comes_once_its_deadline_has_passed",),
    ),
    Mutant(
        "stored-document-overwritten",
        "a file of a document is written once",
        "src/ledger/invoicing/files.py",
        'put_async(key, content, mode="create")',
        'put_async(key, content, mode="overwrite")',
        ("tests/invoicing/test_files_s3.py",),
    ),
    Mutant(
        "missing-bucket-as-missing-file",
        "a bucket that is missing is a fault, not a missing file",
        "src/ledger/invoicing/files.py",
        "if _code_of(missing) == _NO_BUCKET:",
        "if False:",
        ("tests/invoicing/test_files_s3.py",),
    ),
    Mutant(
        "lines-that-round-alike",
        "lines whose rounding adds up are divided again",
        "src/ledger/domain/invoices/concepts.py",
        "            if divisions.worst <= ADDED_MAX:\n                return divisions.chosen\n",
        "            return divisions.chosen\n",
        ("tests/domain/invoices/test_documents.py",),
    ),
    Mutant(
        "two-lines-that-round-alike",
        "two lines are divided at once where one alone cannot make up for the other",
        "src/ledger/domain/invoices/concepts.py",
        "        if divisions.can_be_stated:\n            break\n",
        "        break\n",
        ("tests/domain/invoices/test_documents.py",),
    ),
    Mutant(
        "month-of-another-merchant",
        "the month's report has the documents of its merchant alone",
        "src/projections/orders/month_end.py",
        "merchant_id = %(merchant_id)s and recorded_at >= %(begin)s and topic in (\n"
        "  'document-announced.v1', 'stamping-requested.v1', 'document-stamped.v1', 'document-refused.v1',\n"
        "  'document-cancellation-requested.v1', 'document-cancellation-pending.v1', 'document-cancelled.v1',\n"
        "  'document-cancellation-refused.v1')\n   and stream_id in (\n     select stream_id from event\n"
        "      where merchant_id = %(merchant_id)s and",
        "recorded_at >= %(begin)s and topic in (\n"
        "  'document-announced.v1', 'stamping-requested.v1', 'document-stamped.v1', 'document-refused.v1',\n"
        "  'document-cancellation-requested.v1', 'document-cancellation-pending.v1', 'document-cancelled.v1',\n"
        "  'document-cancellation-refused.v1')\n   and stream_id in (\n     select stream_id from event\n      where",
        ("tests/api/invoices/test_month_end.py",),
    ),
)

_ATTEMPTS: Final = "src/ledger/domain/customers/terms.py"
_ORDER_TIMERS: Final = "src/ledger/domain/orders/timers.py"
_REMINDERS: Final = "src/ledger/domain/orders/evolve/reminders.py"
_REMIND: Final = "src/ledger/operations/orders/due/remind.py"
_SMTP: Final = "src/ledger/notifications/smtp.py"
_NOTICES: Final = "src/ledger/domain/subscriptions/decide/messages.py"
_NOTICE_CORE: Final = ("tests/domain/test_subscription_notices.py",)
_REMINDER_CORE: Final = ("tests/domain/test_reminders.py",)
_REMINDER_TESTS: Final = ("tests/operations/test_reminders.py",)
_SMTP_TESTS: Final = ("tests/notifications/test_smtp.py",)

REMINDERS: Final = (
    Mutant(
        "reminder-attempt-that-runs",
        "two workers make one attempt to send a reminder",
        _ORDER_TIMERS,
        "command.real_at < reminder.deadline_at:",
        "False:",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-of-a-paid-order",
        "an order that owes nothing sends no reminder that waited",
        _ORDER_TIMERS,
        "    if not awaits_payer(order):\n        return ReminderDroppedBecause",
        "    if False:\n        return ReminderDroppedBecause",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-third-after-crashes",
        "a message is sent twice at most after crashes",
        _ATTEMPTS,
        "message.deadline_at is not None and message.unknown + 1 >= _UNKNOWN_MAX",
        "False",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-third-after-silence",
        "a message is sent twice at most without an answer",
        _ATTEMPTS,
        "outcome.unknown and message.unknown + 1 >= _UNKNOWN_MAX",
        "False",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-attempts-without-an-end",
        "the attempts to send a reminder end",
        _ATTEMPTS,
        "message.attempts > len(_PAUSES)",
        "False",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-long-after-its-time",
        "a reminder that is late by more than a day is not sent",
        _ATTEMPTS,
        "message.attempts == 0 and at > send_at + _MISSED_AFTER",
        "False",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-before-the-order",
        "a reminder's time before the order is left out",
        _REMINDERS,
        "after = self.scheduled.at\n",
        "after = datetime.min.replace(tzinfo=UTC)\n",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-overdue-at-the-due-date",
        "an order is not overdue at its due date",
        _REMINDERS,
        "_AFTER: Final = timedelta(milliseconds=1)",
        "_AFTER: Final = timedelta(0)",
        _REMINDER_CORE,
    ),
    Mutant(
        "reminder-unwanted",
        "a customer who wants no reminders gets none",
        _REMIND,
        "if not (wanted.email and wanted.payment_reminders):",
        "if False:",
        _REMINDER_TESTS,
    ),
    Mutant(
        "reminder-beside-another",
        "an attempt of another worker is waited for",
        _REMIND,
        "    if not plan.events:\n        raise AttemptRunning",
        "    if False:\n        raise AttemptRunning",
        _REMINDER_TESTS,
    ),
    Mutant(
        "messages-beside-no-other-work",
        "a mail server without an answer holds up no other work",
        "src/ledger/background/scheduler/lanes.py",
        "counts[lane.suffix] >= lane.jobs_max",
        "counts[lane.suffix] >= 10_000",
        ("tests/background/test_lanes.py",),
    ),
    Mutant(
        "job-lost-after-its-attempts",
        "a job that was given up is tried again",
        "src/ledger/background/scheduler/failed_jobs.py",
        "    where status = 'failed' and coalesce",
        "    where status = 'cancelled' and coalesce",
        ("tests/background/test_jobs.py", "tests/subscriptions/test_given_up.py"),
    ),
    Mutant(
        "notice-of-two-workers",
        "two workers make one attempt to send a message to a subscriber",
        _NOTICES,
        "elif command.real_at >= notice.deadline_at:",
        "else:",
        _NOTICE_CORE,
    ),
    Mutant(
        "notice-of-a-paid-invoice",
        "no message about a debt that was paid",
        _NOTICES,
        "status not in _NOTHING_OWED",
        "status is not None",
        _NOTICE_CORE,
    ),
    Mutant(
        "notice-unwanted",
        "a subscriber who wants no receipts gets none",
        "src/ledger/operations/subscriptions/notify.py",
        "(wanted.receipts if kind is NoticeKind.RECEIPT else wanted.payment_reminders)",
        "True",
        ("tests/subscriptions/test_notices.py",),
    ),
    Mutant(
        "mail-handed-over-without-an-answer",
        "a mail without an answer may have been accepted",
        _SMTP,
        'if step == "DATA" and reply < _NEGATIVE_FROM:',
        "if False:",
        _SMTP_TESTS,
    ),
    Mutant(
        "mail-refused-for-good",
        "a refused mail is not sent again",
        _SMTP,
        "reply >= _REFUSED_FROM",
        "False",
        _SMTP_TESTS,
    ),
    Mutant(
        "mail-without-starttls",
        "no mail leaves in the clear where STARTTLS is asked for",
        _SMTP,
        'start_tls=server.tls == "starttls"',
        'start_tls=None if server.tls == "starttls" else False',
        _SMTP_TESTS,
    ),
    Mutant(
        "mail-to-a-dead-server",
        "after a failed connection no other is tried for a while",
        _SMTP,
        "self._resting_until = time.monotonic() + self._rest_s",
        "pass",
        _SMTP_TESTS,
    ),
    Mutant(
        "mail-errors-with-addresses",
        "no error repeats what a mail server wrote",
        _SMTP,
        "raise self._classified(attempt, failure) from None",
        "raise self._classified(attempt, failure) from failure",
        _SMTP_TESTS,
    ),
    Mutant(
        "mail-connections",
        "few connections to a mail server are open at once",
        _SMTP,
        "_CONNECTIONS_MAX: Final = 8",
        "_CONNECTIONS_MAX: Final = 800",
        _SMTP_TESTS,
    ),
    Mutant(
        "mail-values-as-markup",
        "a value of a payer stays text in a message",
        "src/ledger/notifications/messages.py",
        'select_autoescape(["html"])',
        "False",
        ("tests/notifications/test_messages.py",),
    ),
)

_PAYMENT_METRICS: Final = "src/ledger/operations/pipeline/payment_metrics.py"
_PAYMENT_METRIC_TESTS: Final = ("tests/operations/test_payment_metrics.py",)

METRICS: Final = (
    Mutant(
        "metrics-with-any-decline-code",
        "a text of a processor never becomes the value of a label",
        _PAYMENT_METRICS,
        "event.code if event.code in KNOWN_DECLINES else OTHER",
        "event.code",
        _PAYMENT_METRIC_TESTS,
    ),
    Mutant(
        "metrics-of-money-by-total",
        "a commit counts the money that it moved, never a payment's total again",
        _PAYMENT_METRICS,
        "captured, refunded, charged_back = _totals(previous)",
        "captured, refunded, charged_back = _totals(None)",
        _PAYMENT_METRIC_TESTS,
    ),
    Mutant(
        "metrics-of-silence-as-unreadable",
        "a call that was cut off at its deadline counts as unanswered",
        "src/ledger/operations/pipeline/processor_metrics.py",
        '    asyncio.CancelledError: "unanswered",\n',
        "",
        _PAYMENT_METRIC_TESTS,
    ),
    Mutant(
        "request-line-without-its-order",
        "the line of a request names its order",
        f"{_PIPELINE}/unit_of_work.py",
        "        note_order(order_id)\n",
        "",
        ("tests/api/system/test_metrics.py::test_each_request_has_a_line_that_names_nobody",),
    ),
)

MUTANTS: Final = (
    *METRICS,
    *JOURNAL,
    *PROCESSES,
    *EMBEDDED,
    *MONEY,
    *CALLS,
    *BACKGROUND,
    *READS,
    *HTTP,
    *CUSTOMERS,
    *KEYS,
    *VAULT,
    *DOCUMENTS,
    *REMINDERS,
)
