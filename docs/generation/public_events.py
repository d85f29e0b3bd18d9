"""`public-events.md`: every kind of public event, and the body of one."""

from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page

from ledger.domain.public_events.kinds import KINDS, ResourceType

_INTRO = """
A merchant's programs learn of every change by its public events: `GET /v1/events` answers them in the order of the
merchant's log, under the numbers 1, 2, 3 … ([how to follow them](../how-to/follow-the-feed.md)). The events of the log
itself are [another page](events.md): they are the service's own, and one command has several. A running service shows
these kinds at `/docs/events`.

- A commit is announced as what it came to. A card sale has two: before the call to the processor it is
  `payment_order.created` and `payment.created`; the answer passes AUTHORIZED and is `payment.captured` and
  `payment_order.completed`. Each fact about money is one event; all other changes of one resource in one commit are one
  `updated`.
- A number, once answered, never changes. `ledger restore` leaves numbers out, and nothing else does.
- `id` follows from the merchant, the place in the log, the kind and the resource. Compare events by it.
- `timestamp` is the merchant's clock.
- `data` is the resource as `GET` showed it after the request, at `streamVersion` of its stream. A customer inside it,
  or a plan, is as it was then too; a customer's own event is without `relatedCustomers`. A higher `streamVersion` of the
  same order, customer or subscription is a later state.
- `data` of `payment.*` is the payment with `paymentOrderId` and `paymentOrderExternalId`, and where there is one
  `refund` or `dispute` (`id`, `status` OPEN, WON or LOST, `amount`). That of `invoice.*` is the answer of `…/stamp`, that
  of `complement.*` and `credit_note.*` the document with both ids of its order. That of what was deleted is
  `{"id": …, "deleted": true}`. That of `webhook_endpoint.disabled` is without `lastSequence`, `lastSuccessAt` and
  `failuresInARow`, which are not in the log.
- `previousStatus` is the status before a change of status; a new resource has none.
- No event has a card number or a security code. After the erasure of a customer no event has the person any more, also
  not those of before.

The first read of a merchant's feed begins its numbering, with the first event of the log. While a long past is being
numbered, the feed is 503 `FEED_BEHIND`. It is also 503 behind the last numbered event if the log cannot be read on; all
before that is answered.
"""


def page() -> str:
    """Returns the page as it should be."""
    sections = []
    for resource_type in ResourceType:
        rows = [
            (code(kind.name), kind.description, "yes" if kind.is_status else "")
            for kind in KINDS
            if kind.resource_type is resource_type
        ]
        sections += [f"## {code(resource_type.value)}", table(("kind", "announced for", "previousStatus"), rows)]
    return markdown_page("Public events", _INTRO, *sections)
