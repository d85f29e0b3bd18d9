"""`ledger log`: the signed log of a merchant as files, and the verification of a proof without the service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from ledger.bounded_file import TooLarge, read_file
from ledger.cli.installation import uuid_of, with_database
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import echo_json, echo_table
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from ledger.tlog.static import ExportedLog

app = typer.Typer(no_args_is_help=True, help="Write the signed log as files, and verify proofs of its events.")

_FORGED, _UNREADABLE = 1, 2
_BYTES_MAX: Final = 16 * 2**20
"""How much of a file is read to be verified. An event with its content has a tenth of it at most."""


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to; it is made if it is missing.")],
    merchant: Annotated[
        str | None,
        typer.Option(
            metavar="MERCHANT_ID", help="The merchant; by default each one, in a folder of its own below DIR."
        ),
    ] = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("[{merchantId, size, files}]")] = False,
) -> None:
    """Write the log of a merchant, or of each one, as a folder that programs for C2SP tlog-tiles read.

    Compares the events with the tree and the newest checkpoint meanwhile, and fails if one was changed. What a
    checkpoint does not have yet is left out.
    """
    from ledger.security.secrets import load_checkpoint_keys
    from ledger.settings import log_origin
    from ledger.tlog.growth import LogChanged
    from ledger.tlog.keys import LogKeys
    from ledger.tlog.notes import Malformed, Unverified
    from ledger.tlog.reading import TreeReader
    from ledger.tlog.static import export_log

    chosen = None if merchant is None else uuid_of(merchant, "merchant")

    async def write(settings: Settings) -> list[ExportedLog]:
        assert settings.database_url is not None, "the installation's settings name its database"
        keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
        trees = TreeReader(settings.database_url)
        written = []
        try:
            merchants = await trees.merchants()
            if chosen is not None and chosen not in merchants:
                raise CannotRun(f"the merchant {chosen} has no signed log: it does not exist, or is seconds old")
            for merchant_id in merchants if chosen is None else [chosen]:
                place = await trees.place(merchant_id)
                if place.checkpoint is None:  # its first one is being signed
                    continue
                try:
                    target = folder if chosen else folder / str(merchant_id)
                    written.append(await export_log(trees, keys, merchant_id, place, target))
                except (LogChanged, Unverified, Malformed) as changed:
                    raise CannotRun(f"the log of {merchant_id} is not what its checkpoint has: {changed}") from None
        finally:
            await trees.stop()
        return written

    try:
        written = with_database(data_dir, write)
    except OSError as refusal:
        raise CannotRun(f"{folder} cannot be written: {refusal.strerror}") from refusal
    if json:
        echo_json(written)
    else:
        rows = [(str(each.merchant_id), str(each.size), str(each.files)) for each in written]
        echo_table(("MERCHANT", "EVENTS", "FILES"), rows)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The proof: a file of C2SP tlog-proof.")],
    key: Annotated[
        list[str],
        typer.Option(metavar="VKEY", help="A public key of the log, as GET /v1/log/key has it; several are allowed."),
    ],
    leaf: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The entry, byte for byte, as `entry` of the proof in JSON has it."),
    ] = None,
    event: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of the entry: the event, a line of `ledger export`.")
    ] = None,
    json: Annotated[bool, json_option("{position, index, size, origin}")] = False,
) -> None:
    """Verify that an event is in the log that a checkpoint has. It needs no database, no settings and no network.

    With --event, its content is verified too, except for what the log holds encrypted. Exits 0 if the proof holds, 1 if
    it is forged or of another entry or key, 2 if a file or a key is not readable.
    """
    from ledger.tlog.event_lines import entry_in
    from ledger.tlog.notes import Malformed, Unverified, parse_verifier
    from ledger.tlog.proofs import verify_proof

    if leaf is not None and event is None:
        is_event, place = False, leaf
    elif event is not None and leaf is None:
        is_event, place = True, event
    else:
        _end("give --leaf or --event, the entry or the event that is proved", _UNREADABLE)
    unread = "a key"
    try:
        verifiers = [parse_verifier(text) for text in key]
        unread = str(place)
        entry = _content(place)
        entry = entry_in(entry) if is_event else entry
        unread = str(file)
        index, checkpoint = verify_proof(_content(file), entry, verifiers)
    except Unverified as forged:
        _end(f"the proof does not hold: {forged}", _FORGED)
    except Malformed as malformed:
        _end(f"{unread} is not readable: {malformed}", _UNREADABLE)
    except OSError as refusal:
        _end(f"{unread} cannot be read: {refusal.strerror}", _UNREADABLE)
    found = {"position": index + 1, "index": index, "size": checkpoint.size, "origin": checkpoint.origin}
    if json:
        echo_json(found)
    else:
        typer.echo(f"the event at position {index + 1} is in the log {checkpoint.origin} of {checkpoint.size} events")


def _content(place: Path) -> bytes:
    """Returns the bytes of a file. Raises OSError, and Malformed if they are more than a proof or an event has."""
    from ledger.tlog.notes import Malformed

    try:
        return read_file(place, _BYTES_MAX)
    except TooLarge as fault:
        raise Malformed(str(fault)) from None


def _end(reason: str, status: int) -> NoReturn:
    sys.stderr.write(f"ledger: {reason}\n")
    raise typer.Exit(status)
