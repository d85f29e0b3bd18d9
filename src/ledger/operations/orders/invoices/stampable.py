"""Refuses an order with fiscal data that no invoice can state, new or changed: nothing is charged that SAT refuses."""

from __future__ import annotations

import asyncio
from uuid import UUID

from ledger.domain.invoices.documents import require_statable
from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.invoices.terms import InvoicingPolicy, Issuer
from ledger.domain.orders.terms import OrderTerms
from ledger.domain.rejections import AmountNotStampable, InvalidField, refuse_fields
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.stamp import LINES_ON_LOOP

_UNKNOWN: Issuer = Issuer(rfc="", legal_name="", tax_system="", zip_code="")
"""The issuer of a merchant who has set none yet: lines without taxes contain the usual IVA."""


async def require_stampable(
    ledger: Ledger, merchant_id: UUID, terms: OrderTerms | OrderCreated, policy: InvoicingPolicy
) -> None:
    """Raises InvalidField for the exchange rate and the amounts of an order that will be invoiced."""
    problems = []
    if terms.currency != "MXN" and policy.rate_of(terms.currency) is None:
        problem = f"is required: the invoice of an order in {terms.currency} needs it, and the merchant has set none"
        problems.append(InvalidField("exchangeRate", problem, "REQUIRED"))
    invoicing = ledger.invoicing
    issuer = None if invoicing is None else await invoicing.issuers.known_issuer(merchant_id)
    arguments = terms.line_items, terms.amount, terms.description, issuer or _UNKNOWN
    try:
        if len(terms.line_items) > LINES_ON_LOOP:
            await asyncio.to_thread(require_statable, *arguments)
        else:
            require_statable(*arguments)
    except AmountNotStampable as refused:
        problems.append(InvalidField(refused.field, f"cannot be invoiced: {refused.message.rstrip('.')}"))
    refuse_fields(problems)
