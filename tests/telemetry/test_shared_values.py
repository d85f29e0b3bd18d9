"""What the shared values rely on in prometheus_client, besides its published interface.

A new release series of prometheus_client may come in (pyproject.toml, requirements.lock) once these tests pass with it.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

from ledger.telemetry.metrics import shared_values


def exposed(directory, name):
    """Returns the lines of metric `name` as another process shows them."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(directory))
    return [line for line in generate_latest(registry).decode().splitlines() if line.startswith(name)]


def test_what_is_counted_is_what_another_process_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", shared_values(lambda: "api-0"))
    registry = CollectorRegistry()
    counters = Counter("asked", "Asked.", ("of",), registry=registry)
    for n in range(2_000):  # more than the file has room for in the beginning
        counters.labels(str(n)).inc(n)
        counters.labels("0").inc()
    seconds = Histogram("seconds", "Seconds.", buckets=(1, 2), registry=registry)
    for amount in (0.5, 1.5, 1.5, 4):
        seconds.observe(amount)
    gauge = Gauge("open", "Open.", registry=registry, multiprocess_mode="sum")
    gauge.inc(3)
    gauge.dec()
    asked = exposed(tmp_path, "asked_total{")
    assert sorted(asked) == sorted(f'asked_total{{of="{n}"}} {float(n or 2_000)}' for n in range(2_000))
    assert exposed(tmp_path, "seconds") == [
        "seconds_sum 7.5",
        'seconds_bucket{le="1.0"} 1.0',
        'seconds_bucket{le="2.0"} 3.0',
        'seconds_bucket{le="+Inf"} 4.0',
        "seconds_count 4.0",
    ]
    assert exposed(tmp_path, "open") == ["open 2.0"]


def test_a_process_that_replaces_another_one_goes_on_with_its_values(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    for _ in range(2):
        monkeypatch.setattr(values, "ValueClass", shared_values(lambda: "api-0"))
        Counter("asked", "Asked.", registry=CollectorRegistry()).inc(2)
    assert exposed(tmp_path, "asked_total") == ["asked_total 4.0"]
