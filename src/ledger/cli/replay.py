"""`ledger replay`: the events of an order or a subscription one by one, with the state after each.

Print no personal data in the table; `--json` prints what the events hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.installation import on_ledger, time_of
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import day_and_time, echo_json, echo_table
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from ledger.journal.reader import LogReader, RecordedEvent
    from ledger.operations.context.ledger import Ledger
    from ledger.operations.orders.history import ReplayStep
    from ledger.operations.subscriptions.history import SubscriptionStep
    from ledger.postgres.connection import Connection

_HEADINGS = (
    "version", "position", "recorded", "event", "by", "request", "status", "amount", "paid", "refunded", "pending",
)  # fmt: skip


_SUBSCRIPTION_HEADINGS = (
    "version", "position", "recorded", "event", "by", "request", "status", "period ends", "invoices", "open",
)  # fmt: skip


def replay(
    order: Annotated[
        str,
        typer.Argument(
            metavar="ORDER",
            help="A service id of an order or a subscription, an order number, or MERCHANT_ID/EXTERNAL_ID.",
        ),
    ],
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop at this time of the merchant's clock, in ISO 8601.")
    ] = None,
    version: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after this many events.")] = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "{merchantId, orderId, orderNumber, externalId, currency, events}, or for a subscription {merchantId, "
            "subscriptionId, externalId, customerId, planId, events}; each of events is {version, position, recordedAt, "
            "topic, commandId, actor, operator, request, causation, event, state}"
        ),
    ] = False,
) -> None:
    """Show the events of an order or a subscription one by one: when, who caused each, and the state afterwards."""
    from ledger.domain.subscriptions.events import SubscriptionRequested
    from ledger.operations.orders.history import replay_document, steps
    from ledger.postgres.connection import connect

    until = None if at is None else time_of(at)

    async def read(ledger: Ledger, settings: Settings) -> tuple[UUID, Sequence[RecordedEvent]]:
        assert settings.database_url is not None, "the installation's settings name its database"
        async with await connect(settings.database_url, "ledger-replay") as connection:
            return await _history(connection, ledger.journal.reader, order)

    merchant_id, history = on_ledger(data_dir, read)
    if isinstance(history[0].event, SubscriptionRequested):
        _replay_subscription(merchant_id, history, until, version, json=json)
        return
    replayed = list(steps(history, at=until, version=version))
    if not replayed:
        raise CannotRun(f"the order did not exist then: it was created on {day_and_time(history[0].recorded_at)}")
    if json:
        echo_json(replay_document(merchant_id, replayed))
        return
    terms = replayed[0].order.terms
    typer.echo(f"order     {terms.order_number}  {terms.order_id}  {terms.external_id!r}")
    typer.echo(f"merchant  {merchant_id}")
    typer.echo(f"currency  {terms.currency}, in minor units")
    typer.echo()
    echo_table(_HEADINGS, [_row(step) for step in replayed])
    if len(replayed) < len(history):
        typer.echo(f"\n{len(history) - len(replayed)} later events are left out.")


def _replay_subscription(
    merchant_id: UUID, history: Sequence[RecordedEvent], until: datetime | None, version: int | None, *, json: bool
) -> None:
    from ledger.operations.subscriptions.history import subscription_document, subscription_steps

    replayed = subscription_steps(history, at=until, version=version)
    if not replayed:
        created = day_and_time(history[0].recorded_at)
        raise CannotRun(f"the subscription did not exist then: it was requested on {created}")
    if json:
        echo_json(subscription_document(merchant_id, replayed))
        return
    state = replayed[-1].subscription
    typer.echo(f"subscription  {state.subscription_id}  {state.external_id!r}")
    typer.echo(f"merchant      {merchant_id}")
    typer.echo(f"customer      {state.customer_id}")
    typer.echo()
    echo_table(_SUBSCRIPTION_HEADINGS, [_subscription_row(step) for step in replayed])
    if len(replayed) < len(history):
        typer.echo(f"\n{len(history) - len(replayed)} later events are left out.")


async def _history(connection: Connection, reader: LogReader, order: str) -> tuple[UUID, Sequence[RecordedEvent]]:
    """Returns the merchant and the stream of the order, or of the subscription. Raises CannotRun."""
    from projections.orders.operator_lookup import find_orders, find_subscriptions

    found = await find_orders(connection, order) or await find_subscriptions(connection, order)
    if not found:
        raise CannotRun(
            f"there is no order and no subscription {order!r}: give a service id, an order number or "
            "MERCHANT_ID/EXTERNAL_ID"
        )
    merchant_id, order_id = found[0]
    return merchant_id, await reader.history(connection, merchant_id, order_id)


def _by(context: Mapping[str, Any]) -> str:
    """Returns the operator of an event, or the end of the API key's id; the empty text if no person requested it."""
    operator = context.get("operator")
    return operator["name"] if operator else (context.get("actor") or "")[-12:]


def _subscription_row(step: SubscriptionStep) -> tuple[str, ...]:
    recorded, context = step.recorded, step.context
    return (
        str(recorded.version),
        str(recorded.position),
        day_and_time(recorded.recorded_at),
        recorded.topic,
        _by(context),
        context.get("request") or "",
        step.status,
        day_and_time(step.subscription.current_period_end),
        str(len(step.subscription.invoices)),
        str(step.open_invoices),
    )


def _row(step: ReplayStep) -> tuple[str, ...]:
    from ledger.domain.money import plain

    recorded, order, context = step.recorded, step.order, step.context
    return (
        str(recorded.version),
        str(recorded.position),
        day_and_time(recorded.recorded_at),
        recorded.topic,
        _by(context),
        context.get("request") or "",
        order.status,
        *map(plain, (order.amount, order.amount_paid, order.amount_refunded, order.amount_pending)),
    )
