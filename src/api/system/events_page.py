"""GET /docs/events: every kind of public event, when it is announced, and what a message has.

The words are those of docs/reference/public-events.md.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from starlette.types import ASGIApp

from api.system import reference_html
from api.system.docs_page import Static
from api.system.reference_html import html, table
from ledger.domain.public_events.kinds import KINDS, ResourceType

PATH: Final = "/docs/events"
_COLUMNS: Final = ("kind", "announced for", "previousStatus")

_INTRO: Final = """\
<h1>Events</h1>
<p>A merchant's programs learn of every change by its events: <code>GET /v1/events</code> answers them in their order,
under the numbers 1, 2, 3&nbsp;… in <code>sequence</code>, and webhook endpoints get them as signed messages with the same
bytes. Choose kinds by their names, or by <code>payment_order.*</code> for all that begin so. The names are permanent. The
operations are on the <a href="/docs">reference page</a>, and the schema of each message is in
<a href="/openapi.json">/openapi.json</a> under <code>webhooks</code>.</p>
"""


def page() -> ASGIApp:
    """Returns the endpoint. The page is rendered on the first request."""
    encoded = cache(lambda: _page().encode())
    return Static(lambda _: (b"text/html; charset=utf-8", encoded()))


def _page() -> str:
    sections = [_section(resource_type) for resource_type in ResourceType]
    return reference_html.page("events", "\n".join([_INTRO, *sections]))


def _section(resource_type: ResourceType) -> str:
    kinds = [kind for kind in KINDS if kind.resource_type is resource_type]
    rows = [(html(f"`{kind.name}`"), html(kind.description), "yes" if kind.is_status else "") for kind in kinds]
    ids = [f' id="{kind.name}"' for kind in kinds]
    name = html(f"`{resource_type}`")
    return f'<h2 id="{resource_type}">{name}</h2>\n{table(_COLUMNS, rows, ids)}'
