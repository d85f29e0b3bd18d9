"""What holds for every command."""

from __future__ import annotations

import pytest
from psycopg.conninfo import timeout_from_conninfo

from ledger.cli import main


@pytest.mark.parametrize(
    ("variable", "string", "seconds"), [(None, {}, 5), ("7", {}, 7), ("7", {"connect_timeout": "3"}, 3)]
)
def test_no_server_holds_up_a_command_for_long(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, string: dict[str, str], seconds: int
) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", variable or "")
    if variable is None:
        monkeypatch.delenv("PGCONNECT_TIMEOUT")
    found = list[int]()
    monkeypatch.setattr(main, "app", lambda: found.append(timeout_from_conninfo(string)))
    main.main()
    assert found == [seconds]
