"""The merchant's settings that an order's invoices follow."""

from __future__ import annotations

from decimal import Decimal

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.invoices.terms import InvoicingPolicy


def invoicing_policy(merchant: Merchant, exchange_rate: Decimal | None) -> InvoicingPolicy:
    """Returns the policy of an order that is invoiced now; `exchange_rate` is the request's, in pesos per unit."""
    return InvoicingPolicy(
        trigger=merchant.settings.invoice_trigger,
        time_zone=merchant.settings.time_zone,
        receipt_due_day=merchant.settings.receipt_due_day,
        pue_refund=merchant.settings.pue_refund,
        exchange_rate=exchange_rate,
        usual_exchange_rate=merchant.settings.exchange_rate,
        series=merchant.settings.invoice_series,
        folio=merchant.settings.invoice_folio,
    )
