"""The requirements: the locks, the project's own lists and their inputs agree, and a lock works with any index."""

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = ("requirements", "requirements-dev", "requirements-traces")


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
    files = ("requirements.in", "requirements-dev.in", "requirements-traces.in")
    run, dev, traces = ((ROOT / name).read_text().splitlines() for name in files)
    extras = PROJECT["optional-dependencies"]
    assert wanted(run) == wanted(PROJECT["dependencies"])
    assert wanted(dev) == wanted(["-r requirements.in", *extras["dev"]])
    assert wanted(traces) == wanted(["-r requirements.in", *extras["traces"]])
    assert {*extras["traces"]} < {*extras["dev"]}


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_pinned_by_hash_without_an_index(name):
    lock = (ROOT / f"{name}.lock").read_text()
    assert not re.search(r"--(index-url|extra-index-url|find-links|trusted-host)|https?:|file:", lock)
    for line in wanted((ROOT / f"{name}.in").read_text().splitlines()) - {"-rrequirements.in"}:
        assert re.match(r"[a-z0-9-]+", line)[0] in pins(lock)


def test_the_tests_use_the_pinned_versions_of_the_service():
    run, dev, traces = (pins((ROOT / f"{name}.lock").read_text()) for name in LOCKS)
    assert run.items() <= traces.items()
    assert traces.items() <= dev.items()


@pytest.mark.parametrize("name", LOCKS)
def test_every_pinned_package_runs_on_the_oldest_python_that_is_supported(name):
    """Debian 12 has 3.11.2. The lock is made with a newer one, and may pin a package that refuses that."""
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    pinned = pins((ROOT / f"{name}.lock").read_text())
    here = {each.name.lower().replace("_", "-").replace(".", "-"): each for each in distributions()}
    checked = [here[package] for package in pinned if package in here and here[package].version == pinned[package]]
    assert len(checked) > len(pinned) / 2
    needed = {each.name: each.metadata["Requires-Python"] or "" for each in checked}
    assert {package: by for package, by in needed.items() if not SpecifierSet(by).contains(oldest)} == {}


def test_every_sql_file_is_package_data():
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "migrations/*.sql" in package_data["ledger.postgres"]
