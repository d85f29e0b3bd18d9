"""`events.md`: every topic of the log with its fields and a stored sample.

The samples are the golden bytes that the tests load for ever.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from docs.generation.markdown import block, code, table
from docs.generation.markdown import page as markdown_page
from docs.generation.shapes import anchor, fields, parts, title
from msgspec import Struct

from ledger.domain.customers import events as customers
from ledger.domain.idempotency import events as requests
from ledger.domain.merchants import events as merchants
from ledger.domain.merchants import messages
from ledger.domain.orders import events as orders
from ledger.domain.payment_methods import events as payment_methods
from ledger.domain.plans import events as plans
from ledger.domain.products import events as products
from ledger.domain.subscriptions import events as subscriptions

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"

_INTRO = """
An event is stored as JSON bytes under its topic, together with the merchant, the stream and the version in it, the
position in the merchant's log, the command that caused it, the time, and the caller (`context`). Topics and fields are
permanent. A field is added with a default; a changed meaning is a new version of the topic, and an upcaster reads the
old one. [How to add one](../how-to/add-an-event.md).

Fields marked *sealed* are about a person. They are in one more member, `sealed`, encrypted under the customer's own
data key ([why and how](../explanation/personal-data.md)); the samples show them unencrypted. Once the customer is
erased, such a field has its default.

Amounts are decimal strings in minor units. `at` is the merchant's clock; `deadlineAt` is real time. A field with its
default is left out of the bytes.
"""

_STREAMS: Sequence[tuple[str, str, Mapping[str, type[Struct]]]] = (
    ("Payment order", "The stream's id is the order's id.", orders.TOPICS),
    ("Customer", "The stream's id is the customer's id. All of it is personal data except the ids.", customers.TOPICS),
    (
        "Saved payment methods",
        "One stream for all methods of a customer; its id follows from the customer's. No event has a card number.",
        payment_methods.TOPICS,
    ),
    ("Merchant", "The stream's id is the merchant's id.", merchants.TOPICS),
    ("Product", "The stream's id is generated; the merchant's id of the product is a claim.", products.TOPICS),
    ("Plan", "The stream's id is the plan's id. The merchant's id of the plan is a claim.", plans.TOPICS),
    (
        "Subscription",
        "The stream's id is the subscription's id. Its invoices are in it.",
        subscriptions.TOPICS,
    ),
    (
        "Dismissed message",
        "The stream's id follows from the processor, the merchant and the message's id.",
        messages.TOPICS,
    ),
    ("Request under a key", "The stream's id follows from the merchant and the `Idempotency-Key`.", requests.TOPICS),
)
_SEALED = {**orders.PERSONAL, **customers.PERSONAL, **payment_methods.PERSONAL, **subscriptions.PERSONAL}


def page() -> str:
    """Returns the page as it should be."""
    sections = [
        part
        for name, about, topics in _STREAMS
        for part in (f"## {name}", about, *(_event(topic, type_) for topic, type_ in topics.items()))
    ]
    shapes = dict.fromkeys(shape for _, _, topics in _STREAMS for type_ in topics.values() for shape in parts(type_))
    return markdown_page("Events", _INTRO, *sections, "## Shapes inside events", *(_shape(shape) for shape in shapes))


def _event(topic: str, type_: type[Struct]) -> str:
    sample = msgspec.json.format((GOLDEN / f"{topic}.json").read_bytes().strip(), indent=2).decode()
    return "\n\n".join(
        [
            f"### {topic}",
            f"{code(type_.__name__)}. {_about(type_)}",
            _fields(type_, _SEALED.get(type_, ())),
            block(sample, "json"),
        ]
    )


def _shape(type_: type[Struct]) -> str:
    return "\n\n".join([f'<a id="{anchor(type_)}"></a>', f"### {title(type_)}", _about(type_), _fields(type_)])


def _fields(type_: type[Struct], sealed: Sequence[str] = ()) -> str:
    names = {field.name: field.encode_name for field in msgspec.structs.fields(type_)}
    within = {names[first]: rest for first, _, rest in (path.partition(".") for path in sealed)}
    rows = [
        (code(row.name), row.kind + _mark(within.get(row.name)), "" if row.is_required else row.default or "absent")
        for row in fields(type_)
    ]
    return table(("field", "value", "default"), rows)


def _mark(within: str | None) -> str:
    if within is None:
        return ""
    return f"; sealed: its {within.rpartition('.')[2].replace('_', ' ')}" if within else "; sealed"


def _about(type_: type[Struct]) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (type_.__doc__ or "").split("\n\n"))
