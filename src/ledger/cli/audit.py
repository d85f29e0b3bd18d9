"""`ledger audit`: shows that the log and everything that follows from it are as they were written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledger.cli.installation import (
    errors_as_cannot_run,
    exits_2_if_it_cannot_run,
    require_database,
    settings_of_command,
    uuid_of,
)
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import counted, echo_json
from ledger.cli.progress_bar import progress_bar
from ledger.settings import CannotRun, public_url

if TYPE_CHECKING:
    from uuid import UUID

    from ledger.audit.report import Report, Violation
    from ledger.progress import Progress

_NOTHING: Final = "nothing"
_VIOLATIONS: Final = 1
_WORKERS_MAX: Final = 64


def audit(
    merchant: Annotated[str | None, typer.Option(metavar="ID", help="Only this merchant; by default all.")] = None,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, max=_WORKERS_MAX, help="How many processes read the log.")
    ] = 1,
    processor: Annotated[
        bool, typer.Option("--processor", help="Also compare what the accounts list with the log, both ways.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as a page for people into this file.")
    ] = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "{snapshotAt, merchants, events, orders, rows, seconds, sealedTo, violationsTotal, violations}; sealedTo is a "
            "list of {merchantId, size, checkpoint, keys, outside}, violations of {invariant, merchantId, message} with what applies of "
            "orderId, streamId, position, table, column, expected, found"
        ),
    ] = False,
) -> None:
    """Fold the whole log, compare every read model, the signed log and its checkpoints, and check every invariant.

    It reads one moment, and may run beside the service. Exits 0 if nothing is wrong, 1 if something is, 2 if it could
    not run.
    """
    with exits_2_if_it_cannot_run():
        chosen = None if merchant is None else uuid_of(merchant, "merchant")
        if html is not None:
            _require_writable(html)  # an audit of a large log takes long
        with progress_bar() as progress:
            report, base = _audited(data_dir, chosen, workers, progress, processor=processor)
        refused = None if html is None else _write_page(html, report, base)
        if json:
            echo_json(report)
        else:
            _echo(report)
        if refused is not None:  # what was found is printed before
            raise CannotRun(refused)
    if not report.is_clean:
        raise typer.Exit(_VIOLATIONS)


def _require_writable(place: Path) -> None:
    """Raises OSError for a file that can be neither written nor created, without touching it."""
    number = errno.EISDIR if place.is_dir() else 0
    if not place.parent.is_dir():
        number = errno.ENOENT
    elif not os.access(place if place.exists() else place.parent, os.W_OK):
        number = number or errno.EACCES
    if number:
        raise OSError(number, os.strerror(number), str(place))


def _write_page(place: Path, report: Report, base: str) -> str | None:
    """Writes the report as a page with links to the service at `base`. Returns why that fails, None if it does not."""
    from ledger.audit.page import render_page

    try:
        place.write_text(render_page(report, base), encoding="utf-8")
    except OSError as refusal:
        return f"{place} cannot be written: {refusal.strerror}"
    return None


def _audited(
    data_dir: Path | None, merchant_id: UUID | None, workers: int, progress: Progress, *, processor: bool
) -> tuple[Report, str]:
    """Returns the report, and the address at which the installation's API begins. Raises CannotRun."""
    import asyncio
    from concurrent.futures.process import BrokenProcessPool

    from ledger.audit.auditor import audit as run
    from ledger.audit.auditor import read_saved, tune_process
    from ledger.audit.processors import with_processors
    from ledger.postgres.prepare import ready_database
    from ledger.tlog.checkpoint_files import CheckpointsUnavailable

    tune_process()
    asked = settings_of_command(data_dir)
    require_database(asked)
    try:
        with ready_database(asked) as settings:
            url = settings.database_url
            assert url is not None, "the installation's settings name its database"
            saved = asyncio.run(read_saved(settings))
            with errors_as_cannot_run():
                report = run(settings, url, merchant_id, workers=workers, saved=saved, progress=progress)
                if processor:
                    report = asyncio.run(with_processors(settings, report, merchant_id))
                return report, public_url(settings)
    except CheckpointsUnavailable as unread:
        raise CannotRun(str(unread)) from unread
    except BrokenProcessPool as ended:
        reason = "a process of the audit was ended, as by a lack of memory: audit with fewer --workers"
        raise CannotRun(reason) from ended


def _echo(report: Report) -> None:
    typer.echo(
        f"audited {counted(report.events, 'event')}, {counted(report.orders, 'order')} and {counted(report.rows, 'row')} "
        f"of {counted(report.merchants, 'merchant')} as of {report.snapshot_at.isoformat(timespec='seconds')}, in {report.seconds:.1f} s"
    )
    sealed = sum(each.size for each in report.sealed_to)
    outside = sum(each.outside for each in report.sealed_to)
    have, were = "has" if sealed == 1 else "have", "was" if outside == 1 else "were"
    typer.echo(
        f"{counted(sealed, 'event')} {have} a signed proof; "
        f"{counted(outside, 'checkpoint')} outside the database {were} compared"
    )
    for violation in report.violations:
        typer.echo(line_of(violation))
    if report.is_clean:
        typer.echo("no violation")
    else:
        more = report.violations_total - len(report.violations)
        typer.echo(counted(report.violations_total, "violation") + (f", {more} of them not listed" if more else ""))


def line_of(violation: Violation) -> str:
    """Returns a violation as a line for people."""
    place = [f"merchant {violation.merchant_id}"]
    if violation.order_id is not None:
        place.append(f"order {violation.order_id}")
    if violation.stream_id is not None:
        place.append(f"stream {violation.stream_id}")
    if violation.position is not None:
        place.append(f"position {violation.position}")
    values = ""
    if violation.expected is not None or violation.found is not None:
        values = f" (expected {violation.expected or _NOTHING}, found {violation.found or _NOTHING})"
    return f"{violation.invariant} {', '.join(place)}: {violation.message}{values}"
