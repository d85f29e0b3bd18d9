"""`metrics.md`: every metric of `/metrics`, from the table that the code itself reads."""

from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page

from ledger.telemetry.metrics import FAMILIES

_INTRO = """
`GET /metrics` tells these in Prometheus' text format, for all processes of a service together, to whoever asks from this machine
or with `LEDGER_METRICS_TOKEN` as bearer token. Names and meanings stay. No figure names a merchant, an order or a person.
[What to be woken for](../how-to/operate.md#what-to-be-woken-for) says which of them matter at night.
"""


def page() -> str:
    """Returns the page as it should be."""
    rows = [
        (
            code(name),
            family.kind,
            ", ".join(map(code, (*family.labels, *(("process",) if family.each else ())))),
            family.about,
        )
        for name, family in FAMILIES.items()
    ]
    return markdown_page("Metrics", _INTRO, table(("figure", "kind", "labels", "meaning"), rows))
