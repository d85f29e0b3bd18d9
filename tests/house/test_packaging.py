"""What is installed: the lock, the project's own list and its input agree, and the lock works from any index."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def wanted(lines):
    return {line.replace(" ", "").replace("'", '"') for line in lines if line and not line.startswith("#")}


def test_the_locks_input_is_the_projects_own_list():
    dev = PROJECT["optional-dependencies"]["dev"]
    assert wanted((ROOT / "requirements.in").read_text().splitlines()) == wanted([*PROJECT["dependencies"], *dev])


def test_everything_wanted_is_pinned_by_hash_and_nothing_says_where_to_fetch_it():
    lock = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"--(index-url|extra-index-url|find-links|trusted-host)|https?:|file:", lock)
    pins = re.findall(
        r"^([a-z0-9-]+)==\S+(?: ;.*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock, re.MULTILINE
    )
    assert len(pins) == len(re.findall(r"^[a-z0-9]", lock, re.MULTILINE))
    pinned = {name for name, _ in pins}
    for line in wanted((ROOT / "requirements.in").read_text().splitlines()):
        assert re.match(r"[a-z0-9-]+", line)[0] in pinned


def test_every_sql_file_is_package_data():
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "migrations/*.sql" in package_data["ledger"]
