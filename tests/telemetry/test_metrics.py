"""Metrics of several processes: each answers for all of them, and a total never falls."""

import ast
import asyncio
import subprocess
import sys

import pytest
from tests.service.trees import environment

from ledger.telemetry import metrics

SAMPLES = """
print([((s.name, *map(str, dict(sorted(s.labels.items())).values())), s.value) for f in metrics.AllProcesses().collect() for s in f.samples])
"""
FAMILIES = "print([(f.name, f.type, f.documentation) for f in metrics.AllProcesses().collect()])"
REQUEST = """
metrics.REQUESTS.labels("GET", "/", "2xx", "200").inc()
metrics.REQUEST_SECONDS.labels("GET", "/").observe({seconds})
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program in a process of its own, which has a place in a service, and returns what it prints at its end."""

    def run(process, program, last=SAMPLES):
        variables = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PROMETHEUS_MULTIPROC_PROCESS": process}
        arguments = [sys.executable, "-c", f"from ledger.telemetry import metrics\n{program}\n{last}"]
        done = subprocess.run(arguments, env=environment(**variables), stdout=subprocess.PIPE, text=True, check=True)
        return ast.literal_eval(done.stdout)

    return run


def test_every_process_sees_the_metrics_of_all(run):
    gauges = "metrics.CONNECTIONS.set({}); metrics.JOURNAL_UP.labels(metrics.PROCESS).set({})"
    run("api-0", REQUEST.format(seconds=0.5) + gauges.format(3, 1))
    seen = dict(run("worker-1", REQUEST.format(seconds=20) + gauges.format(4, 0)))
    assert seen["ledger_http_requests_total", "200", "GET", "/", "2xx"] == 2
    assert seen["ledger_http_connections",] == 7
    assert seen["ledger_journal_up", "api-0"] == 1
    assert seen["ledger_journal_up", "worker-1"] == 0
    buckets = {name[1]: value for name, value in seen.items() if name[0] == "ledger_http_request_seconds_bucket"}
    assert (buckets["0.25"], buckets["0.5"], buckets["10.0"], buckets["30.0"], buckets["+Inf"]) == (0, 1, 1, 2, 2)
    assert seen["ledger_http_request_seconds_sum", "GET", "/"] == 20.5
    assert seen["ledger_http_request_seconds_count", "GET", "/"] == 2


def test_a_process_that_replaces_another_one_continues_its_counters_and_sets_its_gauges_anew(run):
    count = REQUEST.format(seconds=0.5) + "metrics.CONFLICTS.inc(2); metrics.QUEUE_COMMANDS.set({queue}); {end}"
    with pytest.raises(subprocess.CalledProcessError):
        run("api-0", count.format(queue=7, end="import os; os.kill(os.getpid(), 9)"))
    seen = dict(run("api-0", count.format(queue=1, end="")))
    assert seen["ledger_http_requests_total", "200", "GET", "/", "2xx"] == 2
    assert seen["ledger_http_request_seconds_sum", "GET", "/"] == 1
    assert seen["ledger_http_request_seconds_count", "GET", "/"] == 2
    assert seen["ledger_journal_conflicts_total",] == 4
    assert seen["ledger_journal_queue_commands",] == 1


def test_a_gauge_and_a_counter_whose_names_differ_by_total_alone_are_two_metrics(run):
    seen = dict(run("api-0", "metrics.CONNECTIONS.set(3); metrics.CONNECTIONS_ACCEPTED.inc(10)"))
    assert (seen["ledger_http_connections",], seen["ledger_http_connections_total",]) == (3, 10)


def test_every_metric_has_its_family_even_without_a_value(run):
    alone = [(family.name, family.type, family.documentation) for family in metrics.AllProcesses().collect()]
    assert len(alone) == len(set(alone)) == 74
    assert run("api-0", "", last=FAMILIES) == alone


def test_what_the_database_knows_has_no_value_while_it_is_away(monkeypatch):
    gauge = metrics.ASKED[0]
    monkeypatch.setattr(gauge, "value", None)
    (family,) = gauge.collect()
    assert family.samples == []
    gauge.value = 3
    (family,) = gauge.collect()
    assert [sample.value for sample in family.samples] == [3]


@pytest.mark.anyio
async def test_gauges_are_sampled_at_once_and_while_the_block_runs(monkeypatch):
    monkeypatch.setattr(metrics, "SAMPLE_S", 0.01)
    calls = []
    with metrics.sampling(lambda: calls.append(1)):
        await asyncio.sleep(0.2)
        assert len(calls) > 1
        values = {sample.name: sample.value for family in metrics.AllProcesses().collect() for sample in family.samples}
        assert values["ledger_process_cpu_seconds_total"] > 0
        assert values["ledger_process_start_time_seconds"] > 1_700_000_000
        assert values["ledger_process_loop_lag_seconds"] >= 0
    await asyncio.sleep(0)
    sampled = len(calls)
    await asyncio.sleep(0.05)
    assert len(calls) == sampled
