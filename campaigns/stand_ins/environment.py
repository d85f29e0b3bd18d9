"""Stripe World in an environment of its own, `.stand-ins`: it needs Python 3.13 or newer, and packages that are pinned by hash."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from campaigns.chaos.running import ROOT, Running, environ

INTERPRETER: Final = "STRIPE_WORLD_PYTHON"
PLACE: Final = ROOT / ".stand-ins"
_HERE: Final = Path(__file__).parent
_REQUIREMENTS: Final = _HERE / "requirements.txt"
_INSTALL_S: Final = 300
_IS_NEW_ENOUGH: Final = "import sys; sys.exit(sys.version_info < (3, 13))"


class CannotStart(Exception):
    """Stripe World cannot run here; the message says why."""


def stripe_world(log: Path) -> Running:
    """Starts Stripe World. Use it in a `with` block; `wait_ready` returns its address. Raises CannotStart."""
    return Running([str(installed()), str(_HERE / "stripe_world.py")], environ({"PYTHONPATH": ""}), log)


def installed() -> Path:
    """Returns the interpreter that has Stripe World; installs it where it is not, or is another version. Raises CannotStart."""
    ours = PLACE / "bin" / "python"
    stamp = PLACE / "installed"
    wanted = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted and ours.exists():
        return ours
    shutil.rmtree(PLACE, ignore_errors=True)
    _run([str(_interpreter()), "-m", "venv", str(PLACE)])
    pip = [str(ours), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    _run([*pip, "--ignore-requires-python", "-r", str(_REQUIREMENTS)])
    stamp.write_text(wanted)
    return ours


def _interpreter() -> Path:
    """Returns a Python that is new enough. Raises CannotStart."""
    tried = []
    for path in _candidates():
        tried.append(str(path))
        with suppress(OSError):
            if subprocess.run([path, "-c", _IS_NEW_ENOUGH], capture_output=True, check=False).returncode == 0:
                return path
    raise CannotStart(
        f"Stripe World needs Python 3.13 or newer; tried {', '.join(tried) or 'none'}. Set {INTERPRETER} to one."
    )


def _candidates() -> Iterator[Path]:
    """Yields the interpreters that may be new enough: the one that is named, those on the path, and pyenv's."""
    if named := os.environ.get(INTERPRETER):
        yield Path(named)
        return
    for name in ("python3.14", "python3.13", sys.executable):
        if found := shutil.which(name):
            yield Path(found)
    versions = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))) / "versions"
    yield from sorted(versions.glob("3.1[3-9]*/bin/python"), reverse=True)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotStart(f"{' '.join(command[:4])} … took longer than {_INSTALL_S} s") from None
    if done.returncode:
        raise CannotStart(f"{' '.join(command[:4])} …: {(done.stderr or done.stdout).strip()[-600:]}")
