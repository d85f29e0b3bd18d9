"""Runs the commands of pages against a real service, and compares their output with the output on the page."""

import os
import re
import subprocess
import sys
import time
from typing import NamedTuple

from tests.docs.pages import ROOT, blocks
from tests.service.trees import environment

_LEDGER = (sys.executable, "-P", "-c", "from ledger.cli.main import main; main()")
_VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\bPO[0-9A-HJKMNP-TV-Z]{10}\b"), "PONUMBER"),
    (re.compile(r"\bin \d+\.\d s:"), "in SECONDS:"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"…\w{4}\b"), "HINT"),
)


class Step(NamedTuple):
    """Commands of a page and the output on the page. `patience_s` is how long they may be repeated."""

    commands: str
    expected: str
    patience_s: float


def steps(page):
    """Returns the commands of a page that run automatically, in their order. A block of output belongs to the block before it."""
    found, is_ours = [], False
    for language, content in blocks(page):
        if language.startswith("sh"):
            is_ours = language != "sh by-hand"
            if is_ours:
                found.append(Step(content, "", 30.0 if language == "sh eventually" else 0.0))
        elif language in {"text", "json"} and is_ours:
            found[-1] = found[-1]._replace(expected=content)
            is_ours = False
    return found


class Service:
    """`ledger serve --demo` on a port of its own, unless a setting names one. Use it in a `with` block."""

    def __init__(self, data_dir, **settings):
        self.data_dir = data_dir
        self.environment = environment(**{"LEDGER_DATA_DIR": str(data_dir), "LEDGER_PORT": "0"} | settings)
        self.welcome = self.url = ""

    def __enter__(self):
        self._process = subprocess.Popen(
            [*_LEDGER, "serve", "--demo"], env=self.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for line in self._process.stdout:
            self.welcome += line
            if line.startswith("ready"):
                self.url = line.split()[-1]
                return self
        raise AssertionError(f"it ended before it was ready: {self.welcome}")

    def __exit__(self, *_):
        self._process.terminate()
        self._process.communicate(timeout=20)


class Shell:
    """A second terminal in the project's directory, which keeps its variables."""

    def __init__(self, service, **replaced):
        self._replaced = replaced | {
            "http://127.0.0.1:${LEDGER_PORT:-8000}": service.url,
            ".ledger/": f"{service.data_dir}/",
            ".venv/bin/python": sys.executable,
            ".venv/bin/ledger": "ledger",
        }
        self._bash = subprocess.Popen(
            ["bash", "-u", "-o", "pipefail"],
            env=service.environment | {"PATH": os.environ["PATH"]},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # curl writes its progress there when it has no terminal
            text=True,
        )
        python, *arguments = _LEDGER
        self._bash.stdin.write(f'ledger() {{ {python} {" ".join(map(repr, arguments))} "$@"; }}\n')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._bash.stdin.close()
        self._bash.stdout.close()
        self._bash.wait(10)

    def run(self, commands):
        """Returns the output of commands that must succeed."""
        for ours, here in self._replaced.items():
            commands = commands.replace(ours, here)
        self._bash.stdin.write(f"{commands}\nstatus=$?; echo; echo DONE $status\n")
        self._bash.stdin.flush()
        printed = ""
        for line in self._bash.stdout:
            if line.startswith("DONE "):
                assert line == "DONE 0\n", f"{commands}\n{printed}"
                return printed
            printed += line
        raise AssertionError(f"the shell ended: {printed}")

    def follow(self, page):
        """Runs every step of a page and compares its output."""
        for step in steps(page):
            end = time.monotonic() + step.patience_s
            printed = self.run(step.commands)
            while not matches(step.expected, printed) and time.monotonic() < end:
                time.sleep(0.5)
                printed = self.run(step.commands)
            assert matches(step.expected, printed), f"{step.commands}\nprints\n{printed}\nnot\n{step.expected}"


def matches(expected, printed):
    """Returns whether an output matches a page: `…` matches anything; white space, ids and times are ignored."""
    if not expected.strip():
        return True
    pieces = [re.escape(piece) for piece in _plain(expected).split("…")]
    return re.fullmatch(".*".join(pieces), _plain(printed), re.DOTALL) is not None


def _plain(text):
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return re.sub(r"\s+", "", text)
