"""Which handler answers which operation, and the parameters that it reads. Any other parameter of Stripe's is refused with 501."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from campaigns.fake_stripe import (
    account,
    balance,
    charges,
    customers,
    disputes,
    payment_intents,
    payment_methods,
    payouts,
    refunds,
    setup_intents,
    transfers,
)
from campaigns.fake_stripe.books import Object
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.errors import NotSupported
from campaigns.fake_stripe.forms import Tree
from campaigns.fake_stripe.specification import Operation

Handler = Callable[[Call], Object]

_PAGE: Final = "limit starting_after ending_before created"
_METHOD: Final = "payment_method payment_method_data payment_method_options"
_CONFIRM: Final = (
    f"{_METHOD} confirmation_token return_url off_session error_on_requires_action use_stripe_sdk setup_future_usage receipt_email "
    "shipping mandate_data radar_options"
)
_SHOWN: Final = "description metadata statement_descriptor statement_descriptor_suffix"
_CREATE: Final = (
    "amount currency customer confirm capture_method confirmation_method payment_method_types automatic_payment_methods"
)
_SETUP: Final = "payment_method payment_method_data confirmation_token return_url use_stripe_sdk mandate_data"
_CUSTOMER: Final = "address description email metadata name phone"
_HANDLERS: Final[dict[str, tuple[Handler, str]]] = {
    "GET /v1/account": (account.retrieve, ""),
    "GET /v1/balance": (balance.retrieve, ""),
    "GET /v1/balance_transactions": (balance.list_transactions, f"{_PAGE} currency source type payout"),
    "GET /v1/balance_transactions/{id}": (balance.retrieve_transaction, ""),
    "GET /v1/charges": (charges.list_all, f"{_PAGE} customer payment_intent"),
    "GET /v1/charges/{charge}": (charges.retrieve, ""),
    "GET /v1/confirmation_tokens/{confirmation_token}": (payment_methods.retrieve_confirmation_token, ""),
    "POST /v1/customers": (customers.create, f"{_CUSTOMER} cash_balance"),
    "GET /v1/customers": (customers.list_all, f"{_PAGE} email"),
    "GET /v1/customers/{customer}": (customers.retrieve, ""),
    "POST /v1/customers/{customer}": (customers.update, _CUSTOMER),
    "DELETE /v1/customers/{customer}": (customers.delete, ""),
    "GET /v1/customers/{customer}/cash_balance": (transfers.balance, ""),
    "POST /v1/customers/{customer}/cash_balance": (transfers.update_balance, "settings"),
    "GET /v1/customers/{customer}/cash_balance_transactions": (transfers.transactions, _PAGE),
    "GET /v1/customers/{customer}/cash_balance_transactions/{transaction}": (transfers.transaction, ""),
    "POST /v1/customers/{customer}/funding_instructions": (
        transfers.funding_instructions,
        "bank_transfer currency funding_type",
    ),
    "GET /v1/customers/{customer}/payment_methods": (payment_methods.of_customer, f"{_PAGE} type"),
    "GET /v1/disputes": (disputes.list_all, f"{_PAGE} charge payment_intent"),
    "GET /v1/disputes/{dispute}": (disputes.retrieve, ""),
    "POST /v1/disputes/{dispute}": (disputes.update, "evidence metadata submit"),
    "POST /v1/disputes/{dispute}/close": (disputes.close, ""),
    "GET /v1/events": (account.events, f"{_PAGE} type types"),
    "GET /v1/events/{id}": (account.event, ""),
    "GET /v1/payment_intents": (payment_intents.list_all, f"{_PAGE} customer"),
    "POST /v1/payment_intents": (
        payment_intents.create,
        f"{_CONFIRM} {_SHOWN} {_CREATE}",
    ),
    "GET /v1/payment_intents/{intent}": (payment_intents.retrieve, "client_secret"),
    "POST /v1/payment_intents/{intent}": (
        payment_intents.update,
        f"{_METHOD} {_SHOWN} amount currency customer receipt_email setup_future_usage shipping",
    ),
    "POST /v1/payment_intents/{intent}/apply_customer_balance": (transfers.apply_balance, "amount currency"),
    "POST /v1/payment_intents/{intent}/cancel": (payment_intents.cancel, "cancellation_reason"),
    "POST /v1/payment_intents/{intent}/capture": (
        payment_intents.capture,
        "amount_to_capture final_capture metadata statement_descriptor statement_descriptor_suffix",
    ),
    "POST /v1/payment_intents/{intent}/confirm": (
        payment_intents.confirm_one,
        f"{_CONFIRM} client_secret capture_method",
    ),
    "POST /v1/payment_methods": (
        payment_methods.create,
        "type card oxxo customer_balance billing_details metadata allow_redisplay",
    ),
    "GET /v1/payment_methods/{payment_method}": (payment_methods.retrieve, ""),
    "POST /v1/payment_methods/{payment_method}/attach": (payment_methods.attach, "customer"),
    "POST /v1/payment_methods/{payment_method}/detach": (payment_methods.detach, ""),
    "GET /v1/payouts": (payouts.list_all, f"{_PAGE} arrival_date destination status"),
    "POST /v1/payouts": (payouts.create, "amount currency description metadata"),
    "GET /v1/payouts/{payout}": (payouts.retrieve, ""),
    "GET /v1/refunds": (refunds.list_all, f"{_PAGE} charge payment_intent"),
    "POST /v1/refunds": (
        refunds.create,
        "amount charge payment_intent metadata reason origin customer currency instructions_email",
    ),
    "GET /v1/refunds/{refund}": (refunds.retrieve, ""),
    "POST /v1/refunds/{refund}": (refunds.update, "metadata"),
    "POST /v1/refunds/{refund}/cancel": (refunds.cancel, ""),
    "GET /v1/setup_intents": (setup_intents.list_all, f"{_PAGE} customer payment_method"),
    "POST /v1/setup_intents": (
        setup_intents.create,
        f"{_SETUP} confirm customer description metadata payment_method_types automatic_payment_methods usage",
    ),
    "GET /v1/setup_intents/{intent}": (setup_intents.retrieve, "client_secret"),
    "POST /v1/setup_intents/{intent}": (
        setup_intents.update,
        "customer description metadata payment_method payment_method_data",
    ),
    "POST /v1/setup_intents/{intent}/cancel": (setup_intents.cancel, "cancellation_reason"),
    "POST /v1/setup_intents/{intent}/confirm": (setup_intents.confirm_one, _SETUP),
    "POST /v1/test_helpers/confirmation_tokens": (
        payment_methods.create_confirmation_token,
        "payment_method payment_method_data return_url setup_future_usage",
    ),
    "POST /v1/test_helpers/customers/{customer}/fund_cash_balance": (transfers.fund, "amount currency reference"),
    "POST /v1/tokens": (payment_methods.create_token, "card"),
    "GET /v1/tokens/{token}": (payment_methods.retrieve_token, ""),
    "GET /v1/webhook_endpoints": (account.endpoints, _PAGE),
    "POST /v1/webhook_endpoints": (account.create_endpoint, "url enabled_events api_version description metadata"),
    "GET /v1/webhook_endpoints/{webhook_endpoint}": (account.retrieve_endpoint, ""),
    "DELETE /v1/webhook_endpoints/{webhook_endpoint}": (account.delete_endpoint, ""),
}
PUBLISHABLE: Final = frozenset(
    {
        "POST /v1/payment_methods",
        "POST /v1/tokens",
        "POST /v1/test_helpers/confirmation_tokens",
        "GET /v1/payment_intents/{intent}",
        "POST /v1/payment_intents/{intent}/confirm",
        "GET /v1/setup_intents/{intent}",
    }
)
"""What Stripe's script does with a publishable key. Its own path for confirmation tokens is not published; the test helper's stands in."""


class Route(Struct, frozen=True):
    """An operation, its handler, and the parameters that the handler reads."""

    operation: Operation
    handler: Handler
    reads: frozenset[str]
    pattern: re.Pattern[str]

    def parameters(self, tree: Tree) -> Tree:
        """Returns the parameters with their types. Raises StripeError for a wrong one, NotSupported for one that nothing reads."""
        found = self.operation.parameters(tree)
        for name in found:
            if name not in self.reads:
                raise NotSupported(f"the parameter {name} of {self.operation.name}")
        return found


def _route(name: str, handler: Handler, reads: str) -> Route:
    operation = Operation(name)
    pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", operation.path))
    return Route(operation, handler, frozenset(f"expand {reads}".split()), pattern)


ROUTES: Final = tuple(_route(name, handler, reads) for name, (handler, reads) in _HANDLERS.items())


def route(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Returns the route of a request and the names in its path, None where there is none."""
    for each in ROUTES:
        if each.operation.method == method and (match := each.pattern.fullmatch(path)):
            return each, match.groupdict()
    return None
