"""A short rolling upgrade from the former release of this repository's history, and how that one is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from campaigns.rolling_upgrade import former
from campaigns.rolling_upgrade.campaign import Plan, run
from campaigns.rolling_upgrade.former import NoFormerRelease, former_commit, lay_out, migrations_since
from campaigns.unknown_outcomes.disturbances import can_move_the_clock

_MIGRATION = "src/ledger/postgres/migrations/{}.sql"


def _former() -> str | None:
    try:
        return former_commit()
    except NoFormerRelease:
        return None


@pytest.mark.anyio
@pytest.mark.long
@pytest.mark.skipif(_former() is None, reason="the history of the repository has no former release")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
async def test_two_releases_with_clocks_apart_serve_the_same_merchants(short_dir: Path) -> None:
    home = short_dir / "upgrade"
    home.mkdir(mode=0o711)
    apart_s = 5.0 if can_move_the_clock() else 0.0
    result = await run(Plan(operations=1500, clients=8, apart_s=apart_s), home)
    assert result.violations == []
    assert (result.figures.lost, result.figures.doubled, result.stuck) == (0, 0, 0)
    assert result.served["former"] > 300
    assert result.served["this"] > 300
    assert result.migrations


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two migrations, each in a commit of its own, and a commit after them."""
    monkeypatch.setattr(former, "ROOT", tmp_path)
    _git(tmp_path, "init", "-q")
    for name in ("0001_one", "0002_two", ""):
        path = tmp_path / (_MIGRATION.format(name) if name else "src/later.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("select 1")
        _git(tmp_path, "add", ".")
        _git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", f"Add {path.name}")
    return tmp_path


def _git(place: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=place, check=True)


def test_without_a_tag_the_former_release_is_before_the_newest_migration(repository: Path, tmp_path: Path) -> None:
    lay_out(former_commit(), tmp_path / "former")
    assert migrations_since(tmp_path / "former") == ["0002_two.sql"]
    assert repository == tmp_path


def test_the_newest_tag_is_the_former_release(repository: Path) -> None:
    _git(repository, "tag", "v1", "HEAD~2")
    lay_out(former_commit(), repository / "former")
    assert migrations_since(repository / "former") == ["0002_two.sql"]
    _git(repository, "tag", "v2", "HEAD~1")
    lay_out(former_commit(), repository / "next")
    assert migrations_since(repository / "next") == []


def test_without_history_the_reason_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(NoFormerRelease, match=r"^no former release is found: .*not a git repository[^\n]*$"):
        former_commit()
