"""The one command of the campaigns, and the page that lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from campaigns.__main__ import main
from campaigns.catalogue import CAMPAIGNS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "measure-and-break.md"


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_campaign_explains_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "fuzz":
        pytest.skip("it passes its options to another program")
    with pytest.raises(SystemExit) as ended:
        CAMPAIGNS[name].main()(["--help"])
    assert ended.value.code == 0
    assert f"python -m campaigns {name} " in capsys.readouterr().out


def test_without_a_name_the_command_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == list(CAMPAIGNS)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert "there is no campaign 'nothing'" in capsys.readouterr().err


def test_the_page_has_a_line_for_each_campaign() -> None:
    section = PAGE.read_text().partition("## The campaigns\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\S+)` \| (.+) \| (.+) \|$", section, re.MULTILINE)
    assert rows == [(each.name, each.shows, each.takes) for each in CAMPAIGNS.values()]
