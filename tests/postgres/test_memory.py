"""The memory that the embedded Postgres may use, by the limits that Linux shows to a process."""

import os
import sys

import pytest

from ledger.postgres.embedded import memory
from ledger.postgres.embedded.memory import memory_bytes, shared_buffers_mb

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report its memory here")

MB = 1 << 20


@pytest.fixture
def limited(tmp_path):
    """Returns the memory under control groups: who belongs where, and the limits by their path."""

    def measure(membership, limits):
        (tmp_path / "membership").write_text(membership)
        for path, limit in limits.items():
            (tmp_path / "groups" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "groups" / path).write_text(f"{limit}\n")
        return memory_bytes(tmp_path / "membership", tmp_path / "groups")

    return measure


def test_the_strictest_of_the_groups_above_a_process_limits_it(limited):
    limits = {
        "memory.max": "max",
        "system.slice/memory.max": 600 * MB,
        "system.slice/ledger.service/memory.max": 900 * MB,
        "other.slice/memory.max": 100 * MB,
    }
    assert limited("0::/system.slice/ledger.service\n", limits) == 600 * MB


def test_a_container_sees_its_limit_at_the_top(limited):
    assert limited("0::/\n", {"memory.max": 512 * MB}) == 512 * MB


def test_groups_of_version_1_limit_too_even_if_the_path_is_that_of_another_machine(limited):
    membership = "9:name=systemd:/docker/4f\n5:cpu,cpuacct:/docker/4f\n4:memory:/docker/4f\n0::/\n"
    assert limited(membership, {"memory/memory.limit_in_bytes": 300 * MB}) == 300 * MB


def test_without_a_limit_it_is_the_machine_s(limited, tmp_path):
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    unlimited = {"memory/memory.limit_in_bytes": 9223372036854771712, "memory.max": "max"}
    assert limited("4:memory:/\n0::/\n", unlimited) == machine
    assert memory_bytes(tmp_path / "none") == machine


@pytest.mark.parametrize(
    ("memory_mb", "buffers_mb"), [(0, 32), (128, 32), (512, 64), (24_000, 3_000), (256_000, 4_096)]
)
def test_postgres_keeps_an_eighth_between_32_mb_and_4_gb(monkeypatch, memory_mb, buffers_mb):
    monkeypatch.setattr(memory, "memory_bytes", lambda: memory_mb * MB)
    assert shared_buffers_mb() == buffers_mb
