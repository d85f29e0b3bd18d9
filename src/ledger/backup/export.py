"""Writes the log as lines of JSON, in pages: an event each, opened, without what was erased."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.backup.log_reader import log_reader
from ledger.journal.reader import LoggedEvent, LogReader
from ledger.postgres.connection import Connection, connect
from ledger.progress import Progress, unreported
from ledger.settings import CannotRun, Settings
from ledger.tlog.event_lines import encode_line

_PAGE: Final = 500

# Every merchant with the last position of its log.
_HEADS: Final = "select merchant_id, position from merchant_head order by merchant_id"


class Exported(Struct, frozen=True):
    """How many events were written, and a line for each merchant about what is missing in them."""

    events: int
    problems: list[str]


async def export_events(
    settings: Settings,
    write: Callable[[bytes], object],
    *,
    merchant_id: UUID | None,
    first: int,
    progress: Progress = unreported,
) -> Exported:
    """Writes the events of one merchant, or of each one, that the log has now from the position `first` on.

    Raises CannotRun if there is no such merchant; what `write` raises.
    """
    url = settings.database_url
    assert url is not None, "the installation's settings name its database"
    reader = log_reader(settings, url)
    async with await connect(url, "ledger-export") as connection:
        found = await (await connection.execute(_HEADS)).fetchall()
        heads = [(merchant, head) for merchant, head in found if merchant_id in (None, merchant)]
        if merchant_id is not None and not heads:
            raise CannotRun(f"there is no merchant {merchant_id}: see `ledger merchants list`")
        total = sum(max(0, head + 1 - first) for _, head in heads)
        done, events, problems = 0, 0, list[str]()
        for merchant, head in heads:
            log = _Log(connection, reader, merchant)
            for after in range(first - 1, head, _PAGE):
                until = min(after + _PAGE, head)
                for line in await log.lines(after, until):
                    write(line)
                    events += 1
                done += until - after
                progress("writing events", done, total)
            problems += log.problems()
    return Exported(events, problems)


class _Count:
    """How many there are, and the first of them."""

    def __init__(self) -> None:
        self.n, self.first = 0, ""

    def add(self, one: str) -> None:
        self.n, self.first = self.n + 1, self.first or one


class _Log:
    """One merchant's log, and what is wrong with its events so far."""

    def __init__(self, connection: Connection, reader: LogReader, merchant_id: UUID) -> None:
        self._connection, self._reader, self._merchant_id = connection, reader, merchant_id
        self._missing, self._unread = _Count(), _Count()

    async def lines(self, after: int, until: int) -> list[bytes]:
        """Returns the lines of the events behind position `after` and up to `until`."""
        logged = await self._reader.logged(self._connection, self._merchant_id, after, until)
        positions = {each.recorded.position for each in logged}
        for position in range(after + 1, until + 1):
            if position not in positions:
                self._missing.add(str(position))
        for each in logged:
            if each.unread is not None:
                self._unread.add(f"{each.recorded.position} ({each.unread})")
        return [_line(self._merchant_id, each) for each in logged]

    def problems(self) -> list[str]:
        """Returns a line for what is wrong, none if nothing is."""
        found = []
        if self._missing.n:
            found.append(f"{self._missing.n} events are missing, the first at position {self._missing.first}")
        if self._unread.n:
            found.append(f"{self._unread.n} events cannot be read, the first at position {self._unread.first}")
        return [f"merchant {self._merchant_id}: {'; '.join(found)}"] if found else []


def _line(merchant_id: UUID, logged: LoggedEvent) -> bytes:
    recorded = logged.recorded
    line = encode_line(
        merchant_id,
        position=recorded.position,
        stream_id=recorded.stream_id,
        version=recorded.version,
        topic=recorded.topic,
        recorded_at=recorded.recorded_at,
        command_id=recorded.command_id,
        context=recorded.context,
        event=recorded.event,
        stored=logged.stored,
    )
    return line + b"\n"
