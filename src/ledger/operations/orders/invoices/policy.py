"""The merchant's settings that an order's invoices follow, and the time zone of their dates."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.invoices.terms import InvoicingPolicy
from ledger.operations.context.ledger import Ledger


async def invoicing_policy(ledger: Ledger, merchant: Merchant, exchange_rate: Decimal | None) -> InvoicingPolicy:
    """Returns the policy of an order that is invoiced now; `exchange_rate` is the request's, in pesos per unit.

    Raises DatabaseUnavailable.
    """
    return InvoicingPolicy(
        trigger=merchant.settings.invoice_trigger,
        time_zone=await time_zone_of_documents(ledger, merchant.merchant_id, merchant.settings.time_zone),
        receipt_due_day=merchant.settings.receipt_due_day,
        pue_refund=merchant.settings.pue_refund,
        exchange_rate=exchange_rate,
        usual_exchange_rate=merchant.settings.exchange_rate,
        series=merchant.settings.invoice_series,
        folio=merchant.settings.invoice_folio,
    )


async def time_zone_of_documents(ledger: Ledger, merchant_id: UUID, otherwise: str) -> str:
    """Returns the time zone in which a merchant's documents are dated, and so that of their months: the one of the
    place of issue (Anexo 20), `otherwise` if the merchant has no issuer. Raises DatabaseUnavailable.
    """
    zone = None if ledger.invoicing is None else await ledger.invoicing.issuers.time_zone_of(merchant_id)
    return zone or otherwise
