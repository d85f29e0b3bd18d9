"""The library's published test cases, run on the journal's tables.

Run each case as it was published: add only what it lacks (how to make a recorder), and change or leave out nothing.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from eventsourcing.persistence import InfrastructureFactory, Tracking
from eventsourcing.tests import application as application_cases
from eventsourcing.tests import persistence as cases
from eventsourcing.tests import projection as projection_cases
from eventsourcing.utils import Environment
from tests.journal.small_log import fetch, open_log

from ledger.recorder import JournalFactory, JournalTrackingRecorder
from ledger.recorder.recorders import JournalAggregateRecorder, JournalApplicationRecorder
from ledger.recorder.tracking import JournalProcessRecorder


class OverTheJournal:
    """A factory for the log of a new merchant, and a check after each case that all logs are gap-free."""

    @pytest.fixture(autouse=True)
    def _over_the_journal(self, log_env: dict[str, str], module_url: str) -> Any:
        self.env = Environment("published", log_env)
        self.journal = InfrastructureFactory.construct(self.env)
        yield
        self.journal.close()
        assert_positions_are_whole(module_url)


def assert_positions_are_whole(url: str) -> None:
    gaps = """
    select h.merchant_id, h.position, min(e.position), max(e.position), count(e)
      from merchant_head h left join event e on e.merchant_id = h.merchant_id group by 1, 2
    having h.position <> count(e) or max(e.position) <> count(e) or min(e.position) <> 1"""
    assert fetch(url, gaps) == []


class TestAggregateRecorder(OverTheJournal, cases.AggregateRecorderTestCase):
    def create_recorder(self):
        return self.journal.aggregate_recorder()


class TestSnapshotRecorder(OverTheJournal, cases.AggregateRecorderTestCase):
    def create_recorder(self):
        return self.journal.aggregate_recorder(purpose="snapshots")


class TestApplicationRecorder(OverTheJournal, cases.ApplicationRecorderTestCase):
    def create_recorder(self):
        return self.journal.application_recorder()

    def test_insert_subscribe(self):
        self.optional_test_insert_subscribe()


class TestNonInterleavingNotificationIDs(OverTheJournal, cases.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self):
        return self.journal.application_recorder()


class TestTrackingRecorder(OverTheJournal, cases.TrackingRecorderTestCase):
    def create_recorder(self):
        return self.journal.tracking_recorder()


class TestProcessRecorder(OverTheJournal, cases.ProcessRecorderTestCase):
    def create_recorder(self):
        return self.journal.process_recorder()


class TestProcessRecorderAsApplicationRecorder(OverTheJournal, cases.ApplicationRecorderTestCase):
    def create_recorder(self):
        return self.journal.process_recorder()

    def test_insert_subscribe(self):
        self.optional_test_insert_subscribe()


class TestProcessRecorderAsTrackingRecorder(OverTheJournal, cases.TrackingRecorderTestCase):
    def create_recorder(self):
        return self.journal.process_recorder()


class TestInfrastructureFactory(OverTheJournal, cases.InfrastructureFactoryTestCase):
    def expected_factory_class(self):
        return JournalFactory

    def expected_aggregate_recorder_class(self):
        return JournalAggregateRecorder

    def expected_application_recorder_class(self):
        return JournalApplicationRecorder

    def expected_tracking_recorder_class(self):
        return JournalTrackingRecorder

    def tracking_recorder_subclass(self):
        return EventCounters

    def expected_process_recorder_class(self):
        return JournalProcessRecorder


class EventCounters(JournalTrackingRecorder, projection_cases.EventCountersView):
    """The view of the library's projection cases, as a table of its own."""

    def get_created_event_counter(self):
        return self._count("created")

    def get_subsequent_event_counter(self):
        return self._count("subsequent")

    def incr_created_event_counter(self, tracking: Tracking):
        self._increment("created", tracking)

    def incr_subsequent_event_counter(self, tracking: Tracking):
        self._increment("subsequent", tracking)

    def _count(self, kind: str):
        with self.transaction() as cursor:
            query = "select n from counter where merchant_id = %s and kind = %s"
            row = cursor.execute(query, (self.merchant_id, kind)).fetchone()
        return 0 if row is None else row[0]

    def _increment(self, kind: str, tracking: Tracking):
        with self.transaction() as cursor:
            cursor.execute(
                "insert into counter as c values (%s, %s, 1) on conflict (merchant_id, kind) do update set n = c.n + 1",
                (self.merchant_id, kind),
            )
            self.track(cursor, tracking)


COUNTER_DDL = (
    "create table if not exists counter (merchant_id uuid, kind text, n int8, primary key (merchant_id, kind))"
)


class WithCounters(OverTheJournal):
    view_class = EventCounters

    @pytest.fixture(autouse=True)
    def _with_counters(self, module_url: str):
        with psycopg.connect(module_url, autocommit=True) as connection:
            connection.execute(COUNTER_DDL)


class TestEventCountersView(WithCounters, projection_cases.EventCountersViewTestCase):
    def construct_event_counters_view(self):
        return self.journal.tracking_recorder(EventCounters)


class TestAggregateEventCountersProjection(WithCounters, projection_cases.AggregateEventCountersProjectionTestCase):
    pass


class TestEventSourcedProjection(OverTheJournal, projection_cases.EventSourcedProjectionTestCase):
    """A projection that appends events needs another merchant's log for them, or it would follow itself."""

    @pytest.fixture(autouse=True)
    def _a_log_of_its_own(self, _over_the_journal: Any, module_url: str):
        self.env["COUNTERS_LEDGER_MERCHANT_ID"] = str(open_log(module_url))


class TestExampleApplication(OverTheJournal, application_cases.ExampleApplicationTestCase):
    """With snapshots. This one finds the persistence module in the process's environment."""

    expected_factory_topic = "ledger.recorder.factory:JournalFactory"

    @pytest.fixture(autouse=True)
    def _in_the_environment(self, log_env: dict[str, str], monkeypatch: pytest.MonkeyPatch):
        for key, value in log_env.items():
            monkeypatch.setenv(key, value)
