"""`settings.md`: every setting of the service and of a merchant, from the tables that the code itself reads.

Defaults come from the code. This module has only the words that no table of the code has.
"""

from datetime import UTC, datetime
from uuid import UUID

from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page

from ledger.domain.merchants.settings import SETTINGS as MERCHANT_SETTINGS
from ledger.domain.merchants.settings import settings_of
from ledger.domain.merchants.state import Merchant
from ledger.settings import Settings, describe

_INTRO = """
A setting is an environment variable. An empty one counts as unset. A flag of the command line takes precedence. A wrong value
stops the start with one line that names the variable; the value of a secret is never repeated. `ledger settings` prints
this table with the present values.
"""

_DEFAULTS = Merchant(
    merchant_id=UUID(int=0),
    name="",
    registered_at=datetime(2026, 1, 1, tzinfo=UTC),
    updated_at=datetime(2026, 1, 1, tzinfo=UTC),
)
"""A merchant without a changed setting."""

_MERCHANT_WORDS = {
    "surchargeRate": "Percent on top of what is paid by the methods below; `none` for no surcharge. Read the "
    "[legal note](../explanation/surcharges-in-mexico.md) first.",
    "surchargeMethods": "Which payment methods bear the surcharge.",
    "timeZone": "In which zone a date without an offset is read.",
    "paymentMethods": "Which methods the merchant accepts; another one is 422 `METHOD_NOT_ENABLED`. The "
    "processor may accept one in some currencies only: references are for pesos.",
    "requireMerchantHeader": "Whether a request without `x-merchant-id` is refused.",
    "requestsPerMinute": "Rate limit of each key; 0 means unlimited. By default `LEDGER_REQUESTS_PER_MINUTE`.",
    "requestsPerSecond": "The same for a second; by default `LEDGER_REQUESTS_PER_SECOND`.",
    "captureDelaySeconds": "How long a capture waits after 3-D Secure.",
    "invoiceTrigger": "When the parent invoice of a split order is stamped: `FIRST_CAPTURE` or `CREATION`.",
    "refundOverpayment": "Whether the excess of a deposit is refunded automatically.",
    "fractionalAmounts": "Whether amounts may have a fraction of a minor unit. `false` refuses 150.75 on every operation and asks: did you mean 15075?",
    "exchangeRate": "Pesos for one dollar, in the invoices of orders in dollars that bring no `exchangeRate`; `none` for no rate.",
    "receiptDueDay": "The day of the next month, 1 to 28, at whose end the legal deadline of payment receipts (REP) is.",
    "reminderDays": "How many days before an order's due date its payer is [reminded](../how-to/send-reminders.md), 0 for "
    "the due date itself: at most five whole numbers up to 90. `none`: payers get no message about a due date.",
}


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
        "`ledger merchants set MERCHANT_ID KEY=VALUE…` changes them. An order keeps the terms of its creation.",
        "The contract's `fiscalIssuer`, who issues the merchant's electronic invoices and with which certificate, has a "
        "command and an address of its own, because it comes with files: `ledger merchants set-issuer` and "
        "`PUT /v1/merchant/fiscal-issuer`. A merchant of the sandbox has a test issuer until then.",
        table(("key", "default", "meaning"), _merchant_rows()),
    )


def _merchant_rows() -> list[tuple[str, str, str]]:
    assert MERCHANT_SETTINGS.keys() == _MERCHANT_WORDS.keys(), "a merchant's setting has no words"
    defaults = settings_of(_DEFAULTS)
    return [(code(name), _written(defaults[name]), words) for name, words in _MERCHANT_WORDS.items()]


def _written(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
