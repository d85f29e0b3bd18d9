"""Gives a new order the fiscal data of its customer. The order keeps a copy: a later change of the customer changes no
order.
"""

from __future__ import annotations

from msgspec.structs import replace

from ledger.domain.customers.state import Customer
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.terms import OrderTerms
from ledger.domain.rejections import InvalidField, refuse_fields
from ledger.invoicing.line_keys import wrong_lines
from ledger.operations.context.inputs import CustomersFiscal, OrderInput


def may_take_fiscal_data(request: OrderInput, merchant: Merchant) -> bool:
    """Returns whether a new order takes the fiscal data that its customer has."""
    if request.terms.fiscal is not None:
        return False
    return request.customers_fiscal is not CustomersFiscal.BY_SETTING or merchant.settings.invoice_by_default


def with_customers_fiscal_data(request: OrderInput, customer: Customer) -> OrderTerms:
    """Returns the terms of a new order with the fiscal data of its customer, if the customer has some.

    Raises InvalidField if the request requires them and there are none, and for lines that no invoice can state.
    """
    terms = request.terms
    if customer.fiscal is None:
        if request.customers_fiscal is CustomersFiscal.REQUIRED:
            raise InvalidField(
                "customerFiscalData",
                "is CUSTOMER, and the customer has no fiscalData: send the receiver, or give the customer fiscalData first",
            )
        return terms
    refuse_fields([InvalidField(field, problem) for field, problem in wrong_lines(terms.line_items)])
    return replace(terms, fiscal=customer.fiscal)
