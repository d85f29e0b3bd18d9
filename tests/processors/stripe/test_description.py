"""The adapter and Stripe's own description use the same names. The double is checked after each test (`conftest`)."""

from __future__ import annotations

import msgspec
import pytest
from tests.processors.stripe.description import description, wrong_with_object, wrong_with_request

from ledger.processors.stripe import objects
from ledger.processors.stripe.transport import VERSION

_NAMES = {
    objects.Intent: ("payment_intent", "setup_intent"),
    objects.Error: ("api_errors",),
    objects.Customer: ("customer",),
    objects.Charge: ("charge",),
    objects.Outcome: ("charge_outcome",),
    objects.MethodDetails: ("payment_method_details",),
    objects.CardDetails: ("payment_method_details_card",),
    objects.ThreeDSecure: ("three_d_secure_details_charge",),
    objects.NextAction: ("payment_intent_next_action",),
    objects.Redirect: ("payment_intent_next_action_redirect_to_url",),
    objects.Voucher: ("payment_intent_next_action_display_oxxo_details",),
    objects.BankTransfer: ("payment_intent_next_action_display_bank_transfer_instructions",),
    objects.FinancialAddress: ("funding_instructions_bank_transfer_financial_address",),
    objects.Spei: ("funding_instructions_bank_transfer_spei_record",),
    objects.MethodOptions: ("payment_intent_payment_method_options",),
    objects.CardOptions: ("payment_intent_payment_method_options_card",),
    objects.Installments: ("payment_method_options_card_installments",),
    objects.Plan: ("payment_method_details_card_installments_plan",),
    objects.PaymentMethod: ("payment_method",),
    objects.Card: ("payment_method_card",),
    objects.BillingDetails: ("billing_details",),
    objects.ConfirmationToken: ("confirmation_token",),
    objects.Refund: ("refund",),
    objects.BalanceTransaction: ("balance_transaction",),
    objects.FeeDetail: ("fee",),
    objects.Account: ("account",),
    objects.OxxoDetails: ("payment_method_details_oxxo",),
    objects.CashTransaction: ("customer_cash_balance_transaction",),
    objects.FundingInstructions: ("funding_instructions",),
    objects.FundingTransfer: ("funding_instructions_bank_transfer",),
    objects.Dispute: ("dispute",),
    objects.OwnedSetup: ("setup_intent",),
    objects.SeenSetup: ("setup_intent",),
    objects.Payout: ("payout",),
    objects.Event: ("event",),
    objects.EventData: ("notification_event_data",),
}
_OWN = {objects.List, objects.Failure}
"""A page of a list and the envelope of an error, which the description writes out at each operation."""


def test_every_field_that_is_decoded_is_one_of_stripes() -> None:
    structs = {
        value for value in vars(objects).values() if isinstance(value, type) and issubclass(value, msgspec.Struct)
    }
    assert structs - {msgspec.Struct} == set(_NAMES) | _OWN
    for struct, names in _NAMES.items():
        known = {field for name in names for field in description()["objects"][name]["properties"]}
        assert set(struct.__struct_encode_fields__) <= known, struct


def test_the_version_is_that_of_the_description() -> None:
    assert description()["version"] == VERSION


@pytest.mark.parametrize(
    ("path", "form", "reason"),
    [
        ("/v1/payment_intents", {"amount": "1"}, "payment_intents: currency is missing"),
        ("/v1/payment_intents/pi_1/capture", {"amount_to_capture": "x"}, "amount_to_capture is no integer"),
        ("/v1/payment_intents/pi_1/confirm", {"card": "4242"}, "card is no parameter"),
        ("/v1/payment_intents/pi_1/cancel", {"cancellation_reason": "why"}, "cancellation_reason cannot be why"),
        ("/v1/charges", {}, "POST charges is not in the description"),
    ],
)
def test_the_checks_find_what_is_wrong(path: str, form: dict[str, str], reason: str) -> None:
    assert any(found.endswith(reason) for found in wrong_with_request("POST", path, form))
    assert wrong_with_object(
        {"id": 1, "object": "refund", "amount": None, "x": 1, "created": 1, "currency": "mxn"}, "refund"
    ) == [
        "refund.x is no field",
        "refund.id: 1 is no string",
        "refund.amount: cannot be null",
    ]
