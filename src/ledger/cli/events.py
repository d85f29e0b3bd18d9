"""`ledger events`: follows a merchant's public events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledger.cli.installation import on_ledger, uuid_of
from ledger.cli.options import DataDir, json_option
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from uuid import UUID

    from ledger.operations.context.ledger import Ledger

app = typer.Typer(no_args_is_help=True, help="A merchant's public events.")

_PAUSE_S: Final = 0.5
_PAGE: Final = 100


@app.callback()
def events() -> None:
    """A merchant's public events."""


@app.command()
def follow(
    merchant: Annotated[str, typer.Argument(metavar="MERCHANT", help="The id of the merchant.")],
    after: Annotated[
        int, typer.Option(metavar="N", min=0, help="Print events with a higher number than this, of the past first.")
    ] = 0,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="KIND",
            help="Print these kinds, such as payment.captured,payment_order.*; may be repeated.",
        ),
    ] = None,
    forward_to: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Post each event, signed, to a program on this machine; print how that ended."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after what there is now.")] = False,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "each event as it is posted, one a line, which is so without this option too; with --forward-to "
            "{signingSecret}, then {sequence, type, status, durationMs, error} for each event"
        ),
    ] = False,
) -> None:
    """Print a merchant's public events as lines of JSON, as they happen, until Ctrl-C.

    Begins the merchant's feed if it has none. With --forward-to, the secret of the signatures is printed first.
    """
    from ledger.domain.public_events.kinds import unknown_patterns

    merchant_id = uuid_of(merchant, "merchant")
    patterns = [kind.strip() for sent in kinds or [] for kind in sent.split(",")]
    if wrong := unknown_patterns(patterns):
        raise CannotRun(f"there is no kind of event {patterns[wrong[0]]!r}: see docs/reference/public-events.md")

    async def print_events(ledger: Ledger, settings: Settings) -> None:
        from projections.events.feed import EventUnreadable

        try:
            await _follow(ledger, settings, merchant_id, after, patterns, forward_to=forward_to, ends=once, json=json)
        except EventUnreadable as unread:
            raise CannotRun(f"{unread}; the events behind it follow with --after {unread.sequence}") from None

    try:
        on_ledger(data_dir, print_events)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


async def _follow(
    ledger: Ledger,
    settings: Settings,
    merchant_id: UUID,
    after: int,
    patterns: list[str],
    *,
    forward_to: str | None,
    ends: bool,
    json: bool,
) -> None:
    """Prints or forwards events after a number, and those to come unless it `ends` with the last one there is now."""
    import asyncio
    from contextlib import AsyncExitStack

    from ledger.background.reactions.feed import Feed
    from ledger.cli.forwarding import Forwarder
    from ledger.domain.public_events.kinds import kinds_of
    from ledger.domain.streams import MERCHANTS
    from ledger.operations.context.event_feed import FeedBehind
    from projections.events.bodies import BodyRenderer
    from projections.events.feed import FeedReader
    from projections.events.numbered import EventQuery
    from projections.events.states import StateReader

    assert settings.database_url is not None, "the installation's settings name its database"
    merchant, _ = await ledger.journal.load(merchant_id, MERCHANTS, merchant_id)
    if merchant is None:
        raise CannotRun(f"there is no merchant {merchant_id}: see `ledger merchants list`")
    async with AsyncExitStack() as stack:
        feed = Feed(settings.database_url, ledger.journal)
        stack.push_async_callback(feed.stop)
        bodies = BodyRenderer(settings.environment, settings.base_path, settings.lps_base_path)
        reader = FeedReader(settings.database_url, StateReader(ledger.journal.reader, ledger.slices), bodies)
        stack.push_async_callback(reader.stop)
        forwarder = None
        if forward_to is not None:
            forwarder = await stack.enter_async_context(Forwarder(forward_to, settings, prints_json=json))
        while True:
            behind = None
            try:
                await feed.catch_up(merchant_id)
            except FeedBehind as fault:
                behind = fault  # what is numbered is printed, and the rest when it is
            query = EventQuery(after=after, limit=_PAGE, kinds=kinds_of(patterns) or None)
            found, rendered = await reader.read(merchant_id, query)
            if forwarder is not None:
                await forwarder.send(found.events, rendered)
            else:
                for body in rendered:
                    typer.echo(body)
            after = found.last_sequence
            if ends and not found.has_more and behind is None:
                return
            if ends and not found.has_more and behind is not None and behind.is_readable:
                raise CannotRun(f"the log cannot be read behind the event {after}: see `ledger doctor` and the logs")
            if not found.has_more:
                await asyncio.sleep(_PAUSE_S)
