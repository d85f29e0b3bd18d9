"""The payer of a payment, as a processor is asked about him: the customer as he is now, and the billing address."""

from __future__ import annotations

from uuid import UUID

from msgspec.structs import replace

from ledger.domain.customers.state import Customer
from ledger.domain.orders.commands import NewPayment
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import BillingAddress
from ledger.domain.streams import CUSTOMERS
from ledger.operations.context.ledger import Ledger
from ledger.processors.contract import Payer


async def payer_of(ledger: Ledger, merchant_id: UUID, order: Order, payment: Payment) -> Payer | None:
    """Returns the payer of a payment, None if he is erased. Raises a Fault."""
    address = payment.started.billing_address or order.terms.billing_address
    return await payer_named(ledger, merchant_id, order.terms.customer_id, address)


async def payer_named(
    ledger: Ledger, merchant_id: UUID, customer_id: UUID, address: BillingAddress | None
) -> Payer | None:
    """Returns a customer as the payer, with this address. None if he is erased. Raises a Fault."""
    customer, _ = await ledger.journal.load(merchant_id, CUSTOMERS, customer_id)
    if customer is None or customer.erased:
        return None
    names = filter(None, (customer.first_name, customer.last_name))
    return Payer(name=" ".join(names) or None, email=customer.email, phone=customer.phone_number, address=address)


def needs_payer(payment: NewPayment | None) -> bool:
    """Returns whether an account takes the payment only from a payer whose name and e-mail are known."""
    return payment is not None and any(each.needs_payer for each in payment.candidates)


def with_payer(payment: NewPayment, customer: Customer | None) -> NewPayment:
    """Returns the payment with what its customer lacks; an erased one lacks everything."""
    known = None if customer is None or customer.erased else customer
    lacks = []
    if known is None or not (known.first_name or known.last_name):
        lacks.append("firstName")
    if known is None or not known.email:
        lacks.append("email")
    return replace(payment, payer_lacks=tuple(lacks))
