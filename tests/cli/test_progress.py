"""Bars of long commands: on a terminal alone."""

import os
import pty
import subprocess
import sys

from tests.service.trees import environment

WORK = """
from ledger.cli.progress_bar import progress_bar
with progress_bar() as progress:
    progress("checking", 0, None)
    for done in (1, 2, 4):
        progress("copying", done, 4)
    progress("comparing", 7, 7)
print("done")
"""


def test_a_bar_is_drawn_for_each_step_on_a_terminal():
    ours, terminal = pty.openpty()
    command = [sys.executable, "-c", WORK]
    out = subprocess.check_output(command, stderr=terminal, env=environment(), text=True)
    os.close(terminal)
    drawn = os.read(ours, 65_536).decode()
    os.close(ours)
    assert out == "done\n"
    assert drawn.index("checking …") < drawn.index("copying") < drawn.index("100%") < drawn.index("comparing")


def test_nothing_is_drawn_elsewhere():
    done = subprocess.run([sys.executable, "-c", WORK], env=environment(), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
