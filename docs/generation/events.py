"""`events.md`: every topic of the log with its fields and a stored sample.

The samples are the golden bytes that the tests load for ever.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from docs.generation.markdown import block, code, table
from docs.generation.markdown import page as markdown_page
from docs.generation.shapes import anchor, fields, parts, title
from msgspec import Struct

from ledger.domain.streams import STREAMS, TOPICS

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

_SEALED = {kind: paths for stream in STREAMS for kind, paths in stream.personal.items()}


def page() -> str:
    """Returns the page as it should be."""
    sections = [
        part
        for stream in STREAMS
        for part in (f"## {stream.name}", stream.about, *(_event(topic, kind) for topic, kind in stream.topics.items()))
    ]
    shapes = dict.fromkeys(shape for kind in TOPICS.values() for shape in parts(kind))
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
