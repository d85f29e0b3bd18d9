"""A child process, seen from its parent."""

import os
import signal
import sys

import pytest
from tests.service.trees import eventually

from ledger.service import child_process
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
