"""The requirements: the locks pin what the project's own lists ask for, and a lock works with any index."""

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = ("requirements", "requirements-dev", "requirements-traces")


def wanted(lock):
    """Returns the project's own requirements that a lock has to pin, by name."""
    extras = {name: [*PROJECT["dependencies"], *lines] for name, lines in PROJECT["optional-dependencies"].items()}
    lines = {
        "requirements": PROJECT["dependencies"],
        "requirements-dev": extras["dev"],
        "requirements-traces": extras["traces"],
    }[lock]
    return {
        re.match(r"[a-z0-9-]+", line)[0]: SpecifierSet(re.match(r"[a-z0-9-]+(?:\[\w+\])?([^;]*)", line)[1])
        for line in lines
    }


def pins(lock):
    """Returns the pinned versions by name. Every pin must have hashes."""
    pinned = re.findall(
        r"^([a-z0-9-]+)==(\S+)(?: ;.*)? \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", lock, re.MULTILINE
    )
    assert len(pinned) == len(re.findall(r"^[a-z0-9]", lock, re.MULTILINE))
    return dict(pinned)


def test_the_extra_for_development_has_that_for_traces():
    extras = PROJECT["optional-dependencies"]
    assert {*extras["traces"]} < {*extras["dev"]}


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_pinned_by_hash_without_an_index(name):
    lock = (ROOT / f"{name}.lock").read_text()
    assert not re.search(r"--(index-url|extra-index-url|find-links|trusted-host)|https?:|file:", lock)
    pinned = pins(lock)
    assert {package for package, versions in wanted(name).items() if pinned.get(package, "") not in versions} == set()


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


def test_the_fonts_of_printed_documents_are_package_data_with_their_licence():
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert package_data["ledger.invoicing.pdf"] == ["typefaces/*"]
    files = {path.name for path in (ROOT / "src/ledger/invoicing/pdf/typefaces").iterdir()}
    assert files == {"LICENSE", "bold.ttf", "mono.ttf", "sans.ttf"}
