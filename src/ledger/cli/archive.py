"""`ledger archive`: the content of old events into files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ledger.cli.attribution import By, Reason, Yes, operator_of, require_confirmation
from ledger.cli.installation import Recorded, errors_as_cannot_run, record, settings_of_command, uuid_of
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import counted, echo_json
from ledger.cli.progress_bar import progress_bar
from ledger.settings import CannotRun

if TYPE_CHECKING:
    from ledger.backup.event_archiving import Archived
    from ledger.settings import Settings


def archive(
    before: Annotated[
        str | None,
        typer.Option(
            metavar="YYYY-MM-DD",
            help="Archive orders without an event since this day (UTC).",
            show_default="the first of the month thirteen months ago",
        ),
    ] = None,
    merchant: Annotated[
        str | None, typer.Option(metavar="MERCHANT_ID", help="The merchant; by default each one.")
    ] = None,
    yes: Yes = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{events, files, bytes}: what was moved, and the bytes of its content")] = False,
) -> None:
    """Move the content of old orders' events, and of old requests' keys, out of the database into the store of files.

    Everything is answered as before, from the files. Each event is compared with the signed log, and each file is read
    again, before anything leaves the database. It may run beside the service, be ended and run again.
    """
    import asyncio

    from ledger.backup.event_archiving import archive_events, default_time
    from ledger.postgres.prepare import owners_database, prepare

    now = datetime.now(UTC)
    until = default_time(now) if before is None else _day_of(before, now)
    merchant_id = None if merchant is None else uuid_of(merchant, "merchant")
    settings = settings_of_command(data_dir)
    effect = f"the content of orders without an event since {until:%Y-%m-%d} goes from the database into files"
    require_confirmation(effect, yes=yes)
    recorded = Recorded(operator_of("archive", by, reason), f"{until:%Y-%m-%d} {merchant_id or ''}".strip())

    async def work(ready: Settings, owner_url: str) -> Archived:
        await record(ready, recorded)
        return await archive_events(ready, owner_url, until, merchant_id=merchant_id, progress=progress)

    with owners_database(settings) as owner_url, errors_as_cannot_run(), progress_bar() as progress:
        moved = asyncio.run(work(prepare(settings, owner_url, migrates=False), owner_url))
    if json:
        echo_json(moved)
    else:
        events, files = counted(moved.events, "event"), counted(moved.files, "file")
        typer.echo(f"moved {events} of {moved.bytes / 1_000_000:.1f} MB into {files}")


def _day_of(text: str, now: datetime) -> datetime:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise CannotRun(f"{text!r} is not a day: days look like 2027-01-31") from None
    if day > now:
        raise CannotRun(f"{text} has not come yet: name a day of the past")
    return day
