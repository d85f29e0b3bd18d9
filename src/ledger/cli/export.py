"""`ledger export`: the events of the log as lines of JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledger.cli.installation import uuid_of, with_database
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import counted, echo_json
from ledger.cli.progress_bar import progress_bar
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from ledger.backup.export import Exported

_STANDARD_OUTPUT: Final = "-"
_OTHER_FORMATS: Final = frozenset({".csv", ".parquet"})


def export(
    to: Annotated[str, typer.Option(metavar="FILE.jsonl", help="The file to write; - is standard output.")],
    merchant: Annotated[
        str | None, typer.Option(metavar="MERCHANT_ID", help="The merchant; by default each one, one after another.")
    ] = None,
    first: Annotated[
        int, typer.Option("--from", metavar="POSITION", min=1, help="The first position of each log that is written.")
    ] = 1,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option("{events, problems}; with `--to -` the events alone are printed"),
    ] = False,
) -> None:
    """Write the events that the log has now as lines of JSON, by merchant and position.

    The content is opened, and lacks what was erased: the file has personal data. It appears under its name once it is
    complete. Exits 1 if an event is missing or cannot be read; the others are written all the same.
    """
    from ledger.backup.export import export_events

    merchant_id = None if merchant is None else uuid_of(merchant, "merchant")
    if Path(to).suffix.lower() in _OTHER_FORMATS:
        raise CannotRun(f"an export writes lines of JSON: name a .jsonl file instead of {to}")

    async def work(settings: Settings) -> Exported:
        return await export_events(settings, write, merchant_id=merchant_id, first=first, progress=progress)

    try:
        with _opened(to) as write, progress_bar() as progress:
            exported = with_database(data_dir, work)
    except BrokenPipeError:
        raise
    except OSError as refusal:
        raise CannotRun(f"{to} cannot be written: {refusal.strerror}") from refusal
    if json and to != _STANDARD_OUTPUT:
        echo_json(exported)
    else:
        for problem in exported.problems:
            typer.echo(problem, err=True)
        if to != _STANDARD_OUTPUT:
            typer.echo(f"wrote {counted(exported.events, 'event')} to {to}")
    if exported.problems:
        raise typer.Exit(1)


@contextmanager
def _opened(to: str) -> Iterator[Callable[[bytes], object]]:
    """Yields what writes to a file, which the owner alone may read and which appears complete; or to standard output.

    Raises OSError.
    """
    if to == _STANDARD_OUTPUT:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    place = Path(to)
    if place.exists() and not place.is_file():  # a pipe or a device, which is never replaced; a folder is refused
        with place.open("wb") as device:
            yield device.write
        return
    unfinished = place.with_name(f"{place.name}.unfinished")
    unfinished.unlink(missing_ok=True)  # of a command that was ended: it may have other rights
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # it has personal data, and may have filled the disk
        raise
