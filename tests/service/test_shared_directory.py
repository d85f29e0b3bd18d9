"""The directory that the processes of a service share: it goes with the parent, however that ends."""

import signal
import subprocess
import sys

import pytest
from tests.service.trees import environment

from ledger.service import shared_directory as module
from ledger.service.shared_directory import shared_directory

HOLD = """
import sys, time
from pathlib import Path
from ledger.service import shared_directory as module
module._IN_MEMORY = sys.argv[1]
with module.shared_directory() as directory:
    print(directory, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_IN_MEMORY", str(tmp_path))
    return tmp_path


def test_it_is_the_users_alone_and_is_removed_with_its_files(memory):
    with shared_directory() as directory:
        assert directory.parent == memory
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "file").touch()
    assert list(memory.iterdir()) == []


def test_that_of_a_parent_that_was_killed_is_removed_and_that_of_one_that_runs_is_not(memory):
    arguments = [sys.executable, "-c", HOLD, str(memory)]
    with subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, text=True) as other:
        theirs = memory / other.stdout.readline().strip().rpartition("/")[2]
        with shared_directory() as ours:
            assert theirs.exists()
            assert ours != theirs
        assert theirs.exists()
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert theirs.exists()
    with shared_directory() as ours:
        assert list(memory.iterdir()) == [ours]


def test_there_is_one_where_the_system_has_no_directory_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_IN_MEMORY", str(tmp_path / "none"))
    with shared_directory() as directory:
        assert directory.is_dir()
    assert not directory.exists()
