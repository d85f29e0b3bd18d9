"""`metrics.md`: every metric that `/metrics` answers with, from the definitions that the code itself uses."""

from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page

from ledger.telemetry.metrics import REGISTRY, AllProcesses

_INTRO = """
`GET /metrics` reports these in Prometheus' text format, for all processes of a service together. Where
`LEDGER_METRICS_TOKEN` is set, it answers clients that send it as bearer token. Otherwise it answers clients on the same machine, where the
service listens on loopback alone and `LEDGER_PUBLIC_URL` names no other address; all others get a 404.
Names and meanings do not change. No metric names a merchant, an order or a person.
[What to be woken for](../how-to/operate.md#what-to-be-woken-for) lists those that matter at night.
"""


def page() -> str:
    """Returns the page."""
    rows = [
        (
            code(f"{family.name}_total" if family.type == "counter" else family.name),
            family.type,
            ", ".join(map(code, getattr(metric, "_labelnames", ()))),
            family.documentation,
        )
        for metric, family in zip(REGISTRY._collector_to_names, AllProcesses().collect(), strict=True)
    ]
    return markdown_page("Metrics", _INTRO, table(("metric", "kind", "labels", "meaning"), rows))
