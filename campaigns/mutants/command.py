"""`python -m campaigns mutants [NAME…]`: takes each guard out of the code once, and runs the tests that should notice.

A test that passes with and without a guard does not protect it. The program copies the code and its tests into a
temporary directory. For each mutant of `guards` it changes one place of the copy and runs the mutant's tests until the
first failure. In the end it runs the tests that have failed on the unchanged copy, if they have to pass. It exits 1
if a mutant is missed or cannot be tested, and if a test fails on the unchanged copy.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final, NamedTuple

from tests import postgres_server

from campaigns.mutants.guards import MUTANTS, ROOT, Mutant

COPIED: Final = ("src", "benchmarks", "campaigns", "docs", "tests", "property_tests", "seeds", "pyproject.toml")
PATIENCE_S: Final = 600.0
"""How long the tests of one mutant may take. A run that takes longer proves nothing: a hang may have another cause."""

_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) ((?:tests|property_tests)/.+?)(?: - .*)?$", re.MULTILINE)
_HAS_FAILURES: Final = 1  # pytest's exit status; others are for runs that could not begin or were interrupted


class Result(NamedTuple):
    """What became of one mutant: the test that noticed it, or why none did, and the seconds that its tests took."""

    mutant: Mutant
    test: str | None
    problem: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.mutant.name:<40} {self.test or self.problem} ({self.seconds:.0f} s)"


class Copy:
    """A copy of the code and its tests in `place`. Its tests use the Postgres server at `url`."""

    def __init__(self, place: Path, url: str) -> None:
        self._place = place
        path = os.pathsep.join([str(place / "src"), str(place)])
        self._environment = os.environ | {"PYTHONPATH": path, "LEDGER_TEST_DATABASE_URL": url}
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(ROOT / name, place / name)

    def uses_itself(self) -> bool:
        """Returns whether Python imports the ledger from this copy, and not from where it is installed."""
        program = [sys.executable, "-c", "import ledger; print(ledger.__file__)"]
        found = subprocess.check_output(program, cwd=self._place, env=self._environment, text=True)
        return Path(found.strip()).is_relative_to(self._place)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Has the mutant's new text in place of the old one while the block runs."""
        path = self._place / mutant.file
        text = path.read_text()
        self._write(path, text.replace(mutant.old, mutant.new))
        try:
            yield
        finally:
            self._write(path, text)

    def test(self, tests: Sequence[str]) -> tuple[int, str]:
        """Runs tests until the first failure; returns pytest's exit status and its output. Raises TimeoutExpired."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        with subprocess.Popen(
            command, cwd=self._place, env=self._environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=PATIENCE_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with the programs that the tests have started
                raise
        return process.returncode, output

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Bytecode is compared by size and whole seconds: that of a text of equal length could be taken for the other's.
        Path(cache_from_source(str(path))).unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Tests the mutants that are named, or all, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants of campaigns/mutants/guards.py (all)")
    names = parser.parse_args(arguments).names
    if unknown := set(names) - {mutant.name for mutant in MUTANTS}:
        parser.error(f"there is no {', '.join(sorted(unknown))}: see campaigns/mutants/guards.py")
    mutants = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    if wrong := [problem for mutant in mutants if (problem := mutant.problem())]:
        _print("\n".join(wrong))
        return 1
    with tempfile.TemporaryDirectory(prefix="ledger-mutants-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o711)
        with postgres_server.running(home / "postgres") as url:
            copy = Copy(home / "copy", url)
            assert copy.uses_itself(), "the copy must come first on Python's path: unset what puts another one there"
            return _test(copy, mutants)


def _test(copy: Copy, mutants: Sequence[Mutant]) -> int:
    results = []
    for mutant in mutants:
        results.append(_tested(copy, mutant))
        _print(str(results[-1]))
    noticing = {result.test.partition("[")[0] for result in results if result.test is not None}
    status, output = copy.test(sorted(noticing)) if noticing else (0, "")
    if status:
        _print(f"{output}\nA test also fails on the unchanged copy: it has noticed nothing.")
    missed = [result for result in results if result.test is None]
    _print(f"{len(results) - len(missed)} of {len(results)} mutants are noticed.")
    for result in missed:
        _print(f"{result.problem} {result.mutant.name}: {result.mutant.protects}")
    return 1 if missed or status else 0


def _tested(copy: Copy, mutant: Mutant) -> Result:
    began = time.monotonic()
    test, problem = None, ""
    with copy.changed(mutant):
        try:
            status, output = copy.test(mutant.tests)
        except subprocess.TimeoutExpired:
            problem = f"BROKEN: its tests did not end within {PATIENCE_S:.0f} s:"
        else:
            failed = _FAILED.findall(output)
            if status == _HAS_FAILURES and failed:
                test = failed[0]
            else:
                problem = f"BROKEN: pytest ended with {status}:\n{output}\n" if status else "MISSED:"
    return Result(mutant, test, problem, time.monotonic() - began)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
