"""`python -m campaigns mutation [FILE…]`: mutmut changes each expression of the domain once, and runs the domain's tests.

The files are modules below src/ledger/domain; without any, all are changed, which takes hours. The command works in a copy,
and prints each change that no test has noticed. A reader judges them: many are equivalent, or change the words of a message.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
DOMAIN: Final = Path("src/ledger/domain")
_COPIED: Final = ("src", "tests", "campaigns", "docs")


def main(arguments: Sequence[str]) -> int:
    """Runs mutmut and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns mutation", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help=f"modules below {DOMAIN} (all)")
    parser.add_argument("--jobs", type=int, default=2, help="how many changes are tested at once (2)")
    options = parser.parse_args(arguments)
    for file in options.files:
        if not file.is_relative_to(DOMAIN) or not (ROOT / file).is_file():
            parser.error(f"{file} is no module below {DOMAIN}")
    with tempfile.TemporaryDirectory(prefix="ledger-mutation-", dir="/tmp") as directory:
        place = Path(directory)
        for name in _COPIED:
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        project = (ROOT / "pyproject.toml").read_text()
        (place / "pyproject.toml").write_text(f"{project}\n{_settings([str(file) for file in options.files])}")
        status = _mutmut(place, "run", "--max-children", str(options.jobs))
        found = subprocess.check_output([sys.executable, "-m", "mutmut", "results"], cwd=place, text=True)
        for line in found.splitlines():
            name, _, result = line.strip().partition(": ")
            if result == "survived":
                _mutmut(place, "show", name)
    return status


def _settings(files: Sequence[str]) -> str:
    """Returns mutmut's part of pyproject.toml. JSON's texts and arrays are TOML's too."""
    values = {
        "source_paths": ["src/"],
        "only_mutate": list(files) or [f"{DOMAIN}/*"],
        "also_copy": [name for name in _COPIED if name != "src"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "no:xdist"],
        "pytest_add_cli_args_test_selection": ["tests/domain"],
    }
    lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in values.items()]
    return "\n".join(["[tool.mutmut]", *lines, ""])


def _mutmut(place: Path, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "mutmut", *arguments], cwd=place, check=False).returncode
