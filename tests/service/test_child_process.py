"""A child process, seen from its parent."""

import json
import os
import resource
import signal
import socket
import sys

import pytest
from tests.service.trees import environment, eventually

from ledger.service import child_process
from ledger.service.child_main import WORKER_PRIORITY
from ledger.service.child_process import ChildProcess
from ledger.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="stops a process")


def test_a_child_that_stops_before_it_is_ready_is_ended(monkeypatch):
    child = ChildProcess("worker", "tests.service.stand_ins:work").configure(Settings())
    try:
        os.kill(child.pid, signal.SIGSTOP)
        assert child.end_if_stopped() == "", "a start takes its time"
        monkeypatch.setattr(child_process, "_START_MAX_S", -1.0)
        assert child.end_if_stopped() == "was not ready after -1 s"
        eventually(lambda: not child.is_alive())
        assert child.ending == "was ended by SIGKILL"
        assert child.end_if_stopped() == ""
    finally:
        child.end()


@pytest.fixture
def few_descriptors():
    """Lets the processes that a test starts have few descriptors until they ask for more, as a shell does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_child_begins_with_its_settings(tmp_path, monkeypatch, few_descriptors):
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    child = ChildProcess("worker", "tests.service.stand_ins:work")
    try:
        assert not child.is_ready
        child.configure(Settings(data_dir=tmp_path))
        eventually(lambda: child.is_alive() and child.is_ready)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == WORKER_PRIORITY > os.getpriority(os.PRIO_PROCESS, 0)
        if hasattr(resource, "prlimit"):
            soft, hard = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
            assert soft == hard, "connections to receivers that hang"
        child.ask_to_stop()
        eventually(lambda: not child.is_alive())
        assert (tmp_path / "worker.done").read_text() == "clean"
    finally:
        child.end()


def test_a_child_that_ends_before_it_has_its_settings_is_reported_like_any_other():
    child = ChildProcess("worker", "tests.service.stand_ins:no_such_target")
    eventually(lambda: not child.is_alive())
    child.configure(Settings())
    child.end()
    assert child.ending == "exited with 1"


@pytest.mark.parametrize(
    ("role", "target"), [("worker", "work_without_database"), ("api", "create_app_without_database")]
)
def test_a_child_without_a_database_ends_with_one_line_of_the_reason(monkeypatch, capfd, role, target):
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = ChildProcess(role, f"tests.service.stand_ins:{target}", listener=listener.fileno())
        child.configure(Settings())
        eventually(lambda: not child.is_alive())
        child.end()
    assert child.lacks_database
    assert child.ending == "ended without its database"
    logged = capfd.readouterr().err
    assert "Traceback" not in logged
    (line,) = [each for each in map(json.loads, logged.splitlines()) if each["event"] == "process_failed"]
    assert line["reason"] == "connection refused Is the server running?"
