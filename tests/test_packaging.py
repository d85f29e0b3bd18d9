"""The requirements: the locks, the project's own lists and their inputs agree, and a lock works with any index."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def wanted(lines):
    return {line.replace(" ", "").replace("'", '"') for line in lines if line and not line.startswith("#")}


def pins(lock):
    """Returns the pinned versions by name. Every pin must have hashes."""
    pinned = re.findall(
        r"^([a-z0-9-]+)==(\S+)(?: ;.*)? \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", lock, re.MULTILINE
    )
    assert len(pinned) == len(re.findall(r"^[a-z0-9]", lock, re.MULTILINE))
    return dict(pinned)


def test_the_locks_inputs_are_the_projects_own_lists():
    run, dev = ((ROOT / name).read_text().splitlines() for name in ("requirements.in", "requirements-dev.in"))
    assert wanted(run) == wanted(PROJECT["dependencies"])
    assert wanted(dev) == wanted(["-r requirements.in", *PROJECT["optional-dependencies"]["dev"]])


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_every_requirement_is_pinned_by_hash_without_an_index(name):
    lock = (ROOT / f"{name}.lock").read_text()
    assert not re.search(r"--(index-url|extra-index-url|find-links|trusted-host)|https?:|file:", lock)
    for line in wanted((ROOT / f"{name}.in").read_text().splitlines()) - {"-rrequirements.in"}:
        assert re.match(r"[a-z0-9-]+", line)[0] in pins(lock)


def test_the_tests_use_the_pinned_versions_of_the_service():
    run, dev = (pins((ROOT / name).read_text()) for name in ("requirements.lock", "requirements-dev.lock"))
    assert run.items() <= dev.items()


def test_every_sql_file_is_package_data():
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "migrations/*.sql" in package_data["ledger.postgres"]
