"""Runs a process tree of stand-ins as a person would run `ledger serve`, and observes it from outside."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
FOR_TESTS = {"LEDGER_LOG_FORMAT": "text", "LEDGER_LOG_LEVEL": "warning"}


def environment(**variables):
    """This process's environment for a program of ours: our sources first, and no setting but the given ones."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return clean | {"PYTHONPATH": path.strip(os.pathsep)} | variables


class Running:
    """A service in a process group of its own. Use it in a `with` block: whatever is left is ended with the block."""

    def __init__(self, data_dir, *arguments, port=0, **variables):
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.service.stand_ins", *arguments],
            env=environment(**{"LEDGER_DATA_DIR": str(data_dir), "LEDGER_PORT": str(port)} | FOR_TESTS | variables),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.url = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.communicate()

    def ready(self):
        """Waits for the one line, and keeps the address in it."""
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("ready"):
                self.url = line.split()[-1]
                return self
        raise AssertionError(f"it ended before it was ready: {lines} {self.process.stderr.read()}")

    def get(self, path):
        return httpx.get(self.url + path, timeout=30, verify=False)  # a context for TLS takes longer than the request

    def count(self):
        """Writes one row and returns how many there are, or None where the service answers 503."""
        answer = self.get("/count")
        assert answer.status_code in {200, 503}
        return int(answer.text) if answer.status_code == 200 else None

    def send(self, number):
        self.process.send_signal(number)

    def kill_group(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self, timeout=30):
        """Returns the exit status and standard error."""
        _, stderr = self.process.communicate(timeout=timeout)
        return self.process.returncode, stderr

    def children(self):
        """The pids below the service, the postmaster's among them, with the names of their programs."""
        found = {}
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = place.read_text()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            if int(rest[1]) == self.process.pid:
                found[int(place.parent.name)] = name
        return found

    def roles(self):
        """The pid of each part of ours, by its role: one API process, and the worker."""
        found = {}
        for pid, name in self.children().items():
            if name != "postgres":
                try:
                    found[Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[-2].decode()] = pid
                except (OSError, IndexError):
                    continue
        return found

    def postmaster(self):
        return next(pid for pid, name in self.children().items() if name == "postgres")


def eventually(condition, timeout=30.0):
    """The first true value of the condition. Raises AssertionError when there is none in time."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
