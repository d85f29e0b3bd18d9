"""`ledger messages`: list, retry, dismiss. A message stays listed until an order has recorded it or an operator has
dismissed it; no command deletes one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledger.cli.attribution import By, Reason, operator_of
from ledger.cli.installation import Recorded, on_connection, on_ledger, uuid_of
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import counted, day_and_time, echo_json, echo_retried, echo_table
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ledger.background.inbox.dismissal import DismissedMessage
    from ledger.background.inbox.pending import PendingMessage
    from ledger.operations.context.ledger import Ledger

app = typer.Typer(
    no_args_is_help=True, help="Messages of processors that no order has recorded: list, retry and dismiss them."
)

_DISMISSED_JSON: Final = (
    "{message, kind, processor, account, merchantId, orderId, receivedAt, waitedFor, dismissedAt, dismissedBy, reason}"
)

Ids = Annotated[list[str] | None, typer.Argument(metavar="MESSAGE", help="The messages, as `list` names them.")]


@app.command(name="list")
def list_(
    dismissed: Annotated[bool, typer.Option("--dismissed", help="List the messages that were dismissed.")] = False,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "[{message, kind, processor, account, merchantId, orderId, receivedAt, tries, setAside, nextAt, waitsFor}]; "
            f"with --dismissed [{_DISMISSED_JSON}]"
        ),
    ] = False,
) -> None:
    """List the messages, the oldest first: what each is about, when it is tried next, and what it waits for."""
    from ledger.background.inbox.pending import pending_messages

    if dismissed:
        _list_dismissed(data_dir, json=json)
        return
    found = on_connection(data_dir, pending_messages)
    if json:
        echo_json(found)
    elif found:
        rows = [
            (
                one.message,
                _sender(one),
                one.kind,
                str(one.order_id or ""),
                day_and_time(one.received_at),
                str(one.tries),
                "set aside" if one.set_aside else day_and_time(one.next_at),
                one.waits_for or "",
            )
            for one in found
        ]
        echo_table(("MESSAGE", "PROCESSOR", "KIND", "ORDER", "RECEIVED", "TRIES", "NEXT", "WAITS FOR"), rows)
    else:
        typer.echo("no message waits for an order")


@app.command()
def retry(
    messages: Ids = None,
    every: Annotated[bool, typer.Option("--all", help="All messages that `list` shows.")] = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{retried}, the messages")] = False,
) -> None:
    """Retry messages at once, those that were set aside included."""
    from ledger.background.inbox.pending import retry_messages

    if bool(messages) == every:
        raise CannotRun("name the messages that `ledger messages list` shows, or --all of them")
    recorded = Recorded(operator_of("messages retry", by, reason), "all" if every else ", ".join(messages or ()))
    retried = on_connection(data_dir, partial(retry_messages, messages=None if every else messages), recorded=recorded)
    unknown = set(messages or ()) - set(retried)
    if unknown:
        raise CannotRun(f"no such message waits: {', '.join(sorted(unknown))}")
    echo_retried(retried, json=json)


@app.command()
def fetch(
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{fetched, unread}; each of unread is {merchantId, account}")] = False,
) -> None:
    """Fetch from the processors of merchants' accounts what they have reported and no message has brought.

    The worker does this every ten minutes. It goes on where the last one ended, at most 29 days back. Exits 1 if a
    processor did not list the messages of an account.
    """
    from ledger.background.inbox.delivery import open_delivery
    from ledger.background.inbox.missed import Fetched, MissedMessages, ReadMarks

    async def work(ledger: Ledger, settings: Settings) -> Fetched:
        assert settings.database_url is not None, "the installation's settings name its database"
        url = settings.database_url
        async with open_delivery(url, ledger) as delivery, ReadMarks(url) as marks:
            return await MissedMessages(ledger, delivery.inbox, marks).fetch()

    fetched = on_ledger(data_dir, work, recorded=Recorded(operator_of("messages fetch", by, reason)))
    if json:
        echo_json(
            {"fetched": fetched.missing, "unread": [{"merchantId": str(m), "account": a} for m, a in fetched.unread]}
        )
    else:
        typer.echo(f"missing until now: {counted(fetched.missing, 'message')}; the worker follows them")
    if fetched.unread:
        for merchant_id, account in fetched.unread:
            typer.echo(f"the processor did not list the messages of {account} of merchant {merchant_id}", err=True)
        raise typer.Exit(1)


@app.command()
def dismiss(
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message, as `list` names it.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why no order will record it.", show_default=False)],
    by: By = None,
    processor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its processor, where several messages have this id.")
    ] = None,
    account: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its account, where several messages have this id.")
    ] = None,
    merchant: Annotated[
        str | None, typer.Option(metavar="MERCHANT_ID", help="Its merchant, where several messages have this id.")
    ] = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option(_DISMISSED_JSON)] = False,
) -> None:
    """Dismiss a message that no order will record: one that no order matches, or that was set aside.

    The log keeps who dismissed it, when and why. It is not tried any more, leaves the list and the alarms, and stays in
    `ledger messages list --dismissed`.
    """
    from ledger.background.inbox.dismissal import dismiss_message
    from ledger.postgres.connection import connect

    operator = operator_of("messages dismiss", by, reason)
    assert operator.reason is not None, "the option is required"
    why = operator.reason
    merchant_id = None if merchant is None else uuid_of(merchant, "merchant")

    async def end(ledger: Ledger, settings: Settings) -> DismissedMessage:
        assert settings.database_url is not None, "the installation's settings name its database"
        async with await connect(settings.database_url, "ledger-cli") as connection:
            return await dismiss_message(
                ledger,
                connection,
                message,
                reason=why,
                dismissed_by=operator.name,
                processor=processor,
                account=account,
                merchant_id=merchant_id,
            )

    ended = on_ledger(data_dir, end, operator)
    if json:
        echo_json(ended)
    else:
        typer.echo(f"{ended.message} is dismissed by {ended.dismissed_by}; it waited because {ended.waited_for}")


def _list_dismissed(data_dir: Path | None, *, json: bool) -> None:
    from ledger.background.inbox.dismissal import dismissed_messages
    from ledger.postgres.connection import connect

    async def read(ledger: Ledger, settings: Settings) -> Sequence[DismissedMessage]:
        assert settings.database_url is not None, "the installation's settings name its database"
        async with await connect(settings.database_url, "ledger-cli") as connection:
            return await dismissed_messages(ledger, connection)

    found = on_ledger(data_dir, read)
    if json:
        echo_json(found)
    elif found:
        rows = [
            (
                one.message,
                _sender(one),
                one.kind,
                day_and_time(one.received_at),
                day_and_time(one.dismissed_at),
                one.dismissed_by,
                one.reason,
            )
            for one in found
        ]
        echo_table(("MESSAGE", "PROCESSOR", "KIND", "RECEIVED", "DISMISSED", "BY", "REASON"), rows)
    else:
        typer.echo("no message was dismissed")


def _sender(one: PendingMessage | DismissedMessage) -> str:
    """Returns the processor of a message, with its account if that has another name."""
    return one.processor if one.account == one.processor else f"{one.processor}/{one.account}"
