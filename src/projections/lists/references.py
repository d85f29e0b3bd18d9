"""What the filters of a list of orders refer to: the order with an external id, the customers with an e-mail, the cards
with four last digits. Each is looked up before the list, which is then read by ids.

Refuse a reference to more than a list can hold; never shorten it silently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from ledger.domain.rejections import InvalidField
from projections.search.lines import fold

REFERENCES_MAX: Final = 10_000

# The order with an external id (kind 1 is ClaimKind.ORDER_EXTERNAL_ID).
_NAMED: Final = "select stream_id from claim where merchant_id = %(merchant_id)s and kind = 1 and key = %(external_id)s"

# The customers with an e-mail, whatever its case.
_WITH_EMAIL: Final = """
select customer_id from customer where merchant_id = %(merchant_id)s and email_folded = %(email)s limit %(limit)s"""

# The values of the column for the orders that were paid with several cards, with this one among them.
_SEVERAL_CARDS: Final = """
select distinct last4s from payment_order
 where merchant_id = %(merchant_id)s and octet_length(last4s) > 4 and strpos(last4s, %(last4)s) > 0 limit %(limit)s"""

# Whether orders lack the columns of filters: an earlier release has written them.
_UNFILLED: Final = "select 1 from payment_order where merchant_id = %(merchant_id)s and currency is null limit 1"

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

Statement = tuple[str, dict[str, Any]]


def is_storable(text: str) -> bool:
    """Returns whether the database can hold a text. A NUL or a surrogate would fail every read of the round trip."""
    return _UNSTORABLE.search(text) is None


def named_statement(merchant_id: UUID, external_id: str) -> Statement:
    """Returns the statement for the order with an external id, and its parameters."""
    return _NAMED, {"merchant_id": merchant_id, "external_id": external_id}


def email_statement(merchant_id: UUID, email: str) -> Statement:
    """Returns the statement for the customers with an e-mail, and its parameters."""
    return _WITH_EMAIL, {"merchant_id": merchant_id, "email": fold(email), "limit": REFERENCES_MAX + 1}


def cards_statement(merchant_id: UUID, last4: str) -> Statement:
    """Returns the statement for the several cards of an order with one that ends so, and its parameters."""
    return _SEVERAL_CARDS, {"merchant_id": merchant_id, "last4": last4, "limit": REFERENCES_MAX + 1}


def unfilled_statement(merchant_id: UUID) -> Statement:
    """Returns the statement that has a row if the merchant's orders await `ledger rebuild`, and its parameters."""
    return _UNFILLED, {"merchant_id": merchant_id}


def found(rows: Sequence[tuple[Any, ...]], parameter: str) -> list[Any]:
    """Returns what the rows of a statement refer to. Raises InvalidField on the parameter if it is too much."""
    if len(rows) > REFERENCES_MAX:
        raise InvalidField(parameter, f"refers to more than {REFERENCES_MAX}: use another filter, such as customerId")
    return [value for (value,) in rows]
