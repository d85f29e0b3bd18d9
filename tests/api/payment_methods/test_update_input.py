"""The body of an update: every wrong field is named at once, and no card detail is taken."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from tests.api.bodies import encoded

from api.errors import ApiError
from api.payment_methods.update import parse_update
from ledger.operations.payment_methods.change import MethodUpdate


def test_what_is_given_is_taken_and_unknown_members_are_ignored() -> None:
    body = encoded({"billingCity": "Puebla", "billingState": None, "billingCountry": "mx", "nickname": "x", "id": 1})
    assert parse_update(body) == MethodUpdate(
        billing={"city": "Puebla", "state": None, "country": "MX"}, nickname="x", is_default=UNSET
    )


@pytest.mark.parametrize(
    ("body", "code", "fields"),
    [
        ({}, "VALIDATION_ERROR", ["body"]),
        ({"nickname": "x"}, "VALIDATION_ERROR", ["body"]),
        ({"isDefault": True, "customerId": "x"}, "VALIDATION_ERROR", ["body"]),
        ([], "VALIDATION_ERROR", ["body"]),
        (b'{"billingCity":', "VALIDATION_ERROR", ["body"]),
        (b'{"billingCity":"\xff"}', "VALIDATION_ERROR", ["body"]),
        (
            {
                "billingCountry": "MEX",
                "billingEmail": "no",
                "billingCity": 7,
                "billingState": "x" * 256,
                "isDefault": 1,
            },
            "VALIDATION_ERROR",
            ["billingCountry", "billingEmail", "billingCity", "billingState", "isDefault"],
        ),
        ({"billingCity": "4242 4242 4242 4242"}, "VALIDATION_ERROR", ["billingCity"]),
        ({"nickname": "cvc: 123", "billingCity": "Puebla"}, "VALIDATION_ERROR", ["nickname"]),
        ({"billingCity": "a\u0000b"}, "VALIDATION_ERROR", ["billingCity"]),
        (b'{"billingCity": "Puebla", "billing\\u0043ity": "Puebla"}', "VALIDATION_ERROR", ["billingCity"]),
        ({"billingCity": "Puebla", "cardDetails": {"expMonth": 1}}, "CARD_DETAILS_IMMUTABLE", ["cardDetails"]),
        (
            {"number": "4242424242424242", "expYear": 2040, "billingCity": 1},
            "CARD_DETAILS_IMMUTABLE",
            ["number", "expYear", "billingCity"],
        ),
    ],
)
def test_a_wrong_update_names_every_wrong_field(body: Any, code: str, fields: list[str]) -> None:
    with pytest.raises(ApiError) as refused:
        parse_update(body if isinstance(body, bytes) else encoded(body))
    assert (refused.value.status, refused.value.code) == (400, code)
    assert [error.field for error in refused.value.errors] == fields
    assert "4242424242424242" not in f"{refused.value.message} {refused.value.errors}"
