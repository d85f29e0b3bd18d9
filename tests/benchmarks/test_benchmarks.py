"""The benchmarks run, leave nothing behind, and measure what they report."""

from __future__ import annotations

import json
import re

import psycopg
import pytest
from benchmarks import run
from benchmarks.load.limits import InsertLimit, echo_limit
from benchmarks.measure.report import Report
from benchmarks.scratch import scratch_database, warm_wal
from benchmarks.suites import ceiling, journal, profile
from tests.clusters import lay_cluster

from ledger.postgres.embedded import server
from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.data_dir import make_data_dir
from ledger.settings import CannotRun, Settings, read_settings


def databases(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {
            name for (name,) in connection.execute("select datname from pg_database where datname like 'ledger_bench%'")
        }


@pytest.mark.long
def test_a_benchmark_leaves_no_database_behind(postgres_url):
    before = databases(postgres_url)
    with scratch_database(postgres_url) as url:
        assert len(databases(postgres_url)) == len(before) + 1
        with psycopg.connect(url) as connection:
            assert connection.execute("select count(*) from event").fetchone() == (0,)
    assert databases(postgres_url) == before


# The files of the write-ahead log that are there before anything was written to them.
_READY_FILES = (
    "select count(*) from pg_ls_waldir() where name ~ '^[0-9A-F]+$' and name > pg_walfile_name(pg_current_wal_lsn())"
)


@pytest.mark.long
def test_the_files_of_the_write_ahead_log_are_there_before_a_benchmark_writes(short_dir):
    running = server.start(open_cluster(make_data_dir(lay_cluster(short_dir / "warm"))))
    try:
        with psycopg.connect(running.url, autocommit=True) as connection:
            assert connection.execute("show min_wal_size").fetchone() == ("1GB",)
            warm_wal(running.url, files=5)
            ready = connection.execute(_READY_FILES).fetchone()
        assert ready is not None
        assert ready[0] >= 4
    finally:
        running.stop()


def test_the_limit_inserts_single_rows_of_the_same_bytes_into_the_journals_table(database_url):
    sample = InsertLimit(database_url, b'{"note":"100 % ni\xc3\xb1o"}').run(4, 1)
    again = InsertLimit(database_url, b"{}").run(1, 1)
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select data, count(*), count(distinct xmin::text) from event group by 1").fetchall()
    assert {data: count for data, count, _ in rows} == {b'{"note":"100 % ni\xc3\xb1o"}': sample.done, b"{}": again.done}
    assert all(count == transactions for _, count, transactions in rows)
    assert 0 < sample.p50_ms <= sample.p99_ms


def test_the_echo_answers():
    with echo_limit() as echo:
        sample = echo.run('{"externalId":"{unique}"}', 4, 0.3)
    assert sample.done > 100
    assert not sample.others


@pytest.mark.parametrize("shape", [pytest.param("lean", marks=pytest.mark.long), "order"])
def test_every_command_that_was_counted_is_in_the_log(shape, database_url):
    merchants = journal.open_merchants(database_url, 3)
    sample = journal.write(database_url, shape, merchants, 0.3, in_flight=8, processes=2)
    assert not sample.others
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select merchant_id, count(*), max(position) from event group by 1").fetchall()
    assert {merchant for merchant, _, _ in rows} == set(merchants)
    assert all(count == last for _, count, last in rows)
    assert sum(count for _, count, _ in rows) >= sample.done > 0


@pytest.mark.long
def test_another_api_process_is_measured_with_what_it_costs(postgres_url, tmp_path):
    settings = read_settings({"LEDGER_DATA_DIR": str(tmp_path)})
    found = ceiling.report(postgres_url, settings, 0.5, 1, numbers=[1])
    assert found.samples.keys() == {"single INSERTs (R)", "API processes: 1"}
    assert all(one.done and not one.others for one in found.samples.values())
    for fact in found.facts.values():
        assert all(float(number.replace(",", "")) > 0 for number in re.findall(r"\d[\d,]*", fact))


def test_an_unknown_benchmark_is_named_as_one():
    with pytest.raises(CannotRun, match="journal, peers, http, profile, growth"):
        run.bench(Settings(), "speed")


def test_the_command_prints_json(postgres_url, capsys, monkeypatch):
    settings = read_settings({"LEDGER_DATABASE_URL": postgres_url})
    monkeypatch.setitem(run.BENCHMARKS, "journal", lambda *_: [Report(name="journal, lean", samples={}, ratios=[])])
    run.bench(settings, "journal", json=True, seconds=0.3, rounds=1)
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["reports"]] == ["journal, lean"]
    assert found["machine"]["fsync"] == "on"


@pytest.mark.long
def test_a_profile_divides_what_each_operation_cost_into_stages(database_url, tmp_path):
    settings = read_settings({"LEDGER_DATABASE_URL": database_url, "LEDGER_DATA_DIR": str(tmp_path)})
    found = profile.report(database_url, settings, tmp_path, seconds=1, names=["create"])
    (one,) = found.samples.values()
    assert one.done
    assert not one.others
    spent = float(found.facts["create"].split()[0])
    stages = {name: what for name, what in found.facts.items() if name.startswith("create, ")}
    assert len(stages) > 5
    assert sum(float(what.split()[0]) for what in stages.values()) == pytest.approx(spent, rel=0.02)


def test_a_profile_counts_a_sample_for_the_innermost_stage():
    here = profile._HERE
    stacks = [
        f"main ({here}ledger/service/child_main.py:1);render ({here}projections/orders/head.py:2);dumps (json.py:3)"
    ]
    stacks.append(f"main ({here}ledger/service/child_main.py:1);run (asyncio/runners.py:118)")
    stacks.append(f"_bootstrap (threading.py:995);_follow_parent ({here}ledger/service/child_main.py:138)")
    samples = zip(stacks, (3, 1, 2), strict=True)
    shares = dict(profile._shares("\n".join(f"{stack} {times}" for stack, times in samples)))
    assert shares == {"read models: rows and documents": 0.75, "event loop, tasks, standard library": 0.25}


def test_a_profile_without_its_sampler_ends_with_what_to_install(monkeypatch):
    monkeypatch.setattr(profile.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(profile.shutil, "which", lambda _: None)
    with pytest.raises(CannotRun, match="py-spy: install the extra `dev`"):
        profile._sampler()
