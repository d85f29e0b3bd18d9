"""`settings.md`: every setting of the service and of a merchant, from the tables that the code itself reads.

Defaults come from the code. This module has only the words that no table of the code has.
"""

from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page

from ledger.domain.merchants.settings import SETTINGS as MERCHANT_SETTINGS
from ledger.settings import Settings, describe

_INTRO = """
A setting is an environment variable. An empty one counts as unset. A flag of the command line takes precedence. A wrong value
stops the start with one line that names the variable; the value of a secret is never repeated. `ledger settings` prints
this table with the present values.
"""

_MERCHANT_INTRO = """
`ledger merchants set MERCHANT_ID KEY=VALUE…` changes them; `PUT /v1/merchant` changes those that are not the operator's.
An order keeps the terms of its creation.

Read the [legal note](../explanation/surcharges-in-mexico.md) before you set a surcharge. A processor may accept a payment
method in some currencies only: references are for pesos. A merchant without limits of its own has
`LEDGER_REQUESTS_PER_MINUTE` and `LEDGER_REQUESTS_PER_SECOND`. [Send reminders](../how-to/send-reminders.md) explains
`reminderDays`.
"""


def page() -> str:
    """Returns the page as it should be."""
    rows = [
        (code(row.variable), row.kind, f"{row.default} {row.unit}".strip() if row.default else "unset", row.description)
        for row in describe(Settings())
    ]
    return markdown_page(
        "Settings",
        _INTRO,
        table(("variable", "value", "default", "meaning"), rows),
        "Only the tests read `LEDGER_TEST_POSTGRES`, the major version of a packaged Postgres to run them on, and "
        "`LEDGER_TEST_DATABASE_URL`, the address of a running server.",
        "## Settings of a merchant",
        _MERCHANT_INTRO,
        "The contract's `fiscalIssuer`, who issues the merchant's electronic invoices and with which certificate, has a "
        "command and an address of its own, because it comes with files: `ledger merchants set-issuer` and "
        "`PUT /v1/merchant/fiscal-issuer`. A merchant of the sandbox has a test issuer until then.",
        table(("key", "value", "default", "meaning"), _merchant_rows()),
    )


def _merchant_rows() -> list[tuple[str, str, str, str]]:
    return [
        (
            code(name),
            setting.kind.choices.removeprefix("must be "),
            _written(setting.default),
            setting.meta.description or "",
        )
        for name, setting in MERCHANT_SETTINGS.items()
    ]


def _written(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
