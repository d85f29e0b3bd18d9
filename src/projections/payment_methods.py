"""A saved payment method: its document, its row, and how it is read.

A card that is being verified has a document as well, and is in no list. A deleted method leaves its ids behind, without
a document: the row then shows nothing of the card and its person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from ledger.domain.orders.declines import PROCESSOR_TIMEOUT, decline_of_card
from ledger.domain.orders.statuses import Advice
from ledger.domain.orders.terms import CardSummary
from ledger.domain.payment_methods.events import Billing
from ledger.domain.payment_methods.state import SavedMethod, SavedMethods, Verification
from ledger.domain.payment_methods.terms import PayerStep, VerificationEnd
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.binary import micros
from projections.formats import Moment, moment, moment_or_null
from projections.lists.cursor import AnyCursor, CursorCodec, list_hash
from projections.lists.paging import Pagination, paginated

_encode: Final = msgspec.json.Encoder().encode
_NO_BILLING: Final = Billing()

# Writes the methods that changed as they are after the commit.
_WRITE: Final = """
insert into payment_method (merchant_id, payment_method_id, customer_id, is_default, created_at, is_saved, doc)
select merchant_id, payment_method_id, customer_id, is_default, created_at, is_saved, doc from {rows}
on conflict (merchant_id, payment_method_id) do update
   set is_default = excluded.is_default, created_at = excluded.created_at, is_saved = excluded.is_saved, doc = excluded.doc
"""

TABLE: Final = InlineTable(
    "payment_method",
    (
        ("merchant_id", "uuid"),
        ("payment_method_id", "uuid"),
        ("customer_id", "uuid"),
        ("is_default", "bool"),
        ("created_at", "timestamptz"),
        ("is_saved", "bool"),
        ("doc", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)

# The documents of payment methods by their ids. Each row begins with the number of the key that it answers.
FIND: Final = """
select q.n, p.doc
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as q(n, merchant_id, payment_method_id)
  join payment_method p on p.merchant_id = q.merchant_id and p.payment_method_id = q.payment_method_id
 where p.doc is not null
"""

# A page of a customer's methods, the default first, then the newest (contract N52); and how many there are. With a
# cursor, the page begins behind it.
PAGE: Final = """
with methods as (
  select doc, is_default, created_at, payment_method_id from payment_method
   where merchant_id = %(merchant_id)s and customer_id = %(customer_id)s and doc is not null and is_saved)
select (select count(*) from methods), p.doc, p.is_default, p.created_at, p.payment_method_id
  from (select 1) as one left join (
  select doc, is_default, created_at, payment_method_id from methods
   where %(after)s::uuid is null or (is_default, created_at, payment_method_id)
         < (%(is_default)s::bool, %(created_at)s::timestamptz, %(after)s::uuid)
   order by is_default desc, created_at desc, payment_method_id desc limit %(limit)s offset %(offset)s) p on true
 order by p.is_default desc, p.created_at desc, p.payment_method_id desc
"""


class SavedCardDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The details of a saved card that may be shown. They cannot be updated."""

    bin: Annotated[
        str | None, Meta(description="The first six digits. Null if the card came as a token that does not show them.")
    ]
    last4: Annotated[str, Meta(description="The last four digits.")]
    type: Annotated[str | None, Meta(description="credit or debit; null where unknown.", examples=["credit"])]
    brand: Annotated[str, Meta(description="For example VISA.")]
    country: Annotated[str | None, Meta(description="ISO 3166 country of the issuer.")]
    issuer_bank: Annotated[str | None, Meta(description="The bank that issued the card.")]
    exp_month: Annotated[int, Meta(description="The month of expiry, 1 to 12.")]
    exp_year: Annotated[int, Meta(description="The year of expiry, four digits.")]
    expiry_month: Annotated[str, Meta(description="expMonth as two digits.")]
    expiry_year: Annotated[str, Meta(description="expYear as four digits.")]
    cardholder_name: Annotated[str | None, Meta(description="As printed on the card.")]


class MethodStatus(StrEnum):
    """The statuses of a payment method: saved, or why it is not."""

    ACTIVE = "ACTIVE"
    PENDING = "PENDING"
    REQUIRES_ACTION = "REQUIRES_ACTION"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class CardAuthenticationDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A 3-D Secure session of a card that is being verified: what the payer's browser needs."""

    status: Annotated[str, Meta(description="DEVICE_DATA_REQUIRED or CHALLENGE_REQUIRED.")]
    authentication_transaction_id: Annotated[
        str, Meta(description="The id of the transaction, to be sent to `validate`.")
    ]
    reference_id: Annotated[str | None, Meta(description="The id of the session.")]
    device_data_collection_url: Annotated[str | None, Meta(description="The page that collects the device data.")]
    access_token: Annotated[str | None, Meta(description="The access token for the pages of the session.")]
    step_up_url: Annotated[str | None, Meta(description="The page of the challenge or of the redirect.")]
    three_ds_version: Annotated[str | None, Meta(description="The version of the 3-D Secure protocol.")] = (
        msgspec.field(name="threeDSVersion")
    )
    expires_at: Annotated[Moment | None, Meta(description="When the session ends.")]


class CardFailureDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Why a card was not saved."""

    decline_code: Annotated[
        str, Meta(description="The reason, as a code that is the same for all processors.", examples=["CARD_EXPIRED"])
    ]
    message: Annotated[str, Meta(description="The reason, for people.")]
    retryable: Annotated[bool, Meta(description="Whether the same card, unchanged, may be approved another time.")]
    advice: Annotated[Advice, Meta(description="What the merchant should do.")]


class SavedPaymentMethod(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A saved payment method of a customer."""

    id: Annotated[UUID, Meta(description="The service's id of the payment method: send it as paymentMethodId.")]
    type: Annotated[Literal["CARD"], Meta(description="The kind of method.")]
    customer_id: Annotated[UUID, Meta(description="The service's id of the customer.")]
    is_default: Annotated[bool, Meta(description="True for exactly one of a customer's methods.")]
    nickname: Annotated[str | None, Meta(description="A name for people.")]
    billing_first_name: Annotated[str | None, Meta(description="Given name of the cardholder.")]
    billing_last_name: Annotated[str | None, Meta(description="Family name of the cardholder.")]
    billing_phone_number: Annotated[str | None, Meta(description="Phone of the cardholder.")]
    billing_email: Annotated[str | None, Meta(description="E-mail address of the cardholder.")]
    billing_address_line1: Annotated[str | None, Meta(description="Street and number.")]
    billing_address_line2: Annotated[str | None, Meta(description="Further line of the address.")]
    billing_city: Annotated[str | None, Meta(description="City.")]
    billing_state: Annotated[str | None, Meta(description="State.")]
    billing_postal_code: Annotated[str | None, Meta(description="Postal code.")]
    billing_country: Annotated[str | None, Meta(description="ISO 3166 country.")]
    card_details: SavedCardDocument
    created_at: Moment
    updated_at: Moment
    status: Annotated[
        MethodStatus,
        Meta(
            description="ACTIVE: saved, and can be charged. PENDING: the processor has not answered yet whether the card "
            "is good. REQUIRES_ACTION: the payer has to act first. FAILED and EXPIRED: not saved."
        ),
    ]
    next_action: Annotated[
        PayerStep | None,
        Meta(description="What the payer has to do, also where an ACTIVE card is verified again with a new expiry."),
    ]
    payer_authentication: Annotated[
        CardAuthenticationDocument | None, Meta(description="What the payer's browser needs for `nextAction`.")
    ]
    failure: Annotated[CardFailureDocument | None, Meta(description="Why a FAILED card was not saved.")]


class SavedPaymentMethodPage(Struct, rename="camel"):
    """A page of a customer's saved payment methods."""

    data: Annotated[list[SavedPaymentMethod], Meta(description="The default first, then the newest.")]
    pagination: Pagination


class MethodCursor(AnyCursor, frozen=True):
    """The end of a page: its last method, and the number of methods up to and including that one."""

    is_default: bool
    created_at: datetime
    payment_method_id: UUID
    behind: int


METHOD_CURSORS: Final = CursorCodec(MethodCursor, is_default="?", created_at="q", behind="I", payment_method_id="16s")


class MethodQuery(Struct, frozen=True, kw_only=True):
    """A page of a customer's methods. With a cursor the page continues after it, and `offset` is ignored."""

    limit: int = 20
    offset: int = 0
    cursor: MethodCursor | None = None


def render(methods: SavedMethods, payment_method_id: UUID) -> bytes | None:
    """Returns the JSON object of a method, or of the card that is or was to be saved under its id; None if there is
    none, or it was deleted.
    """
    method = next((each for each in methods.methods if each.payment_method_id == payment_method_id), None)
    return _render(method, methods.latest_verification(payment_method_id))


def rows(merchant_id: UUID, before: SavedMethods | None, after: SavedMethods) -> list[Row]:
    """Returns the rows of the methods that changed from `before` (None if there were none)."""
    known = {} if before is None else _parts(before)
    return [
        _row(merchant_id, *parts)
        for method_id, parts in _parts(after).items()
        if not _same(known.get(method_id), parts)
    ]


_Parts = tuple[SavedMethod | None, Verification | None]
"""A method and the latest verification of its card; one of them may be missing."""


def _parts(methods: SavedMethods) -> dict[UUID, _Parts]:
    parts: dict[UUID, _Parts] = {each.payment_method_id: (None, each) for each in methods.verifications}
    for method in methods.methods:
        _, verification = parts.get(method.payment_method_id, (None, None))
        is_open = verification is not None and verification.ended is None
        parts[method.payment_method_id] = method, verification if is_open else None
    return parts


def _same(before: _Parts | None, after: _Parts) -> bool:
    return before is not None and before[0] is after[0] and before[1] is after[1]


def _row(merchant_id: UUID, method: SavedMethod | None, verification: Verification | None) -> Row:
    shown = method or verification
    assert shown is not None, "one of the two has the id"
    document = _render(method, verification)
    return (
        merchant_id.bytes,
        shown.payment_method_id.bytes,
        shown.customer_id.bytes,
        method is not None and method.is_default,
        micros(shown.created_at),
        method is not None,
        document,
    )


_GONE: Final = frozenset({VerificationEnd.REPLACED, VerificationEnd.DELETED, VerificationEnd.CUSTOMER_ERASED})


def _render(method: SavedMethod | None, verification: Verification | None) -> bytes | None:
    """Returns the JSON object of a method or of a card that was not saved, None if neither is shown."""
    if method is not None:
        assert method.deleted or method.card is not None, "a live method has a card"
        return None if method.card is None else _encode(_document(method, method.card, verification))
    if verification is None or verification.ended in _GONE:
        return None
    return _encode(_document(verification, verification.card, verification))


def _document(
    shown: SavedMethod | Verification, card: CardSummary, verification: Verification | None
) -> SavedPaymentMethod:
    billing = shown.billing or _NO_BILLING
    return SavedPaymentMethod(
        id=shown.payment_method_id,
        type="CARD",
        customer_id=shown.customer_id,
        is_default=isinstance(shown, SavedMethod) and shown.is_default,
        nickname=shown.nickname if isinstance(shown, SavedMethod) else None,
        billing_first_name=billing.first_name,
        billing_last_name=billing.last_name,
        billing_phone_number=billing.phone_number,
        billing_email=billing.email,
        billing_address_line1=billing.address_line1,
        billing_address_line2=billing.address_line2,
        billing_city=billing.city,
        billing_state=billing.state,
        billing_postal_code=billing.postal_code,
        billing_country=billing.country,
        card_details=_card_document(card),
        created_at=moment(shown.created_at),
        updated_at=moment(shown.updated_at),
        status=MethodStatus.ACTIVE if isinstance(shown, SavedMethod) else _status(shown),
        next_action=None if verification is None else verification.next_action,
        payer_authentication=None if verification is None else _authentication(verification),
        failure=None if isinstance(shown, SavedMethod) else _failure(shown),
    )


def _card_document(card: CardSummary) -> SavedCardDocument:
    return SavedCardDocument(
        bin=card.bin,
        last4=card.last4,
        type=None if card.type is None else card.type.lower(),
        brand=card.brand,
        country=card.country,
        issuer_bank=card.issuer_bank,
        exp_month=card.exp_month,
        exp_year=card.exp_year,
        expiry_month=f"{card.exp_month:02}",
        expiry_year=str(card.exp_year),
        cardholder_name=card.cardholder_name,
    )


def _status(verification: Verification) -> MethodStatus:
    if verification.ended is VerificationEnd.EXPIRED:
        return MethodStatus.EXPIRED
    if verification.ended is not None:
        return MethodStatus.FAILED
    is_waiting = verification.next_action is not None and verification.call is None
    return MethodStatus.REQUIRES_ACTION if is_waiting else MethodStatus.PENDING


def _authentication(verification: Verification) -> CardAuthenticationDocument | None:
    session, step = verification.session, verification.next_action
    if session is None or step is None:
        return None
    is_device_data = step is PayerStep.DEVICE_DATA
    return CardAuthenticationDocument(
        status="DEVICE_DATA_REQUIRED" if is_device_data else "CHALLENGE_REQUIRED",
        authentication_transaction_id=session.transaction_id,
        reference_id=session.reference_id,
        device_data_collection_url=session.device_data_collection_url,
        access_token=session.access_token,
        step_up_url=session.step_up_url,
        three_ds_version=session.three_ds_version,
        expires_at=moment_or_null(verification.action_expires_at),
    )


def _failure(verification: Verification) -> CardFailureDocument | None:
    if verification.ended in {None, VerificationEnd.EXPIRED}:
        return None
    reason = decline_of_card(verification.decline_code or PROCESSOR_TIMEOUT, verification.network_advice)
    return CardFailureDocument(
        decline_code=reason.code, message=reason.message, retryable=reason.retryable, advice=reason.advice
    )


def find_parameters(keys: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """Returns the columns that FIND unnests, for keys of a merchant's and a method's id, as bytes."""
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["uuid"]([method_id for _, method_id in keys]),
    ]


def found(row: Sequence[Any]) -> bytes:
    """Returns the method's document from a row of FIND."""
    document: bytes = row[1]
    return document


def page_parameters(merchant_id: UUID, customer_id: UUID, query: MethodQuery) -> Mapping[str, Any]:
    """Returns the parameters of PAGE, which reads one method more than the page holds."""
    cursor = query.cursor
    return {
        "merchant_id": merchant_id,
        "customer_id": customer_id,
        "limit": query.limit + 1,
        "offset": query.offset if cursor is None else 0,
        "is_default": None if cursor is None else cursor.is_default,
        "created_at": None if cursor is None else cursor.created_at,
        "after": None if cursor is None else cursor.payment_method_id,
    }


def page_body(customer_id: UUID, query: MethodQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of PAGE."""
    shown, pagination = paginated(query, rows, partial(_cursor_behind, list_hash(query, customer_id)))
    documents: list[Any] = [msgspec.Raw(doc) for _, doc, *_ in shown]
    return msgspec.json.encode(SavedPaymentMethodPage(data=documents, pagination=pagination))


def _cursor_behind(of_list: bytes, row: tuple[Any, ...], behind: int) -> str:
    _, _, is_default, created_at, method_id = row
    return METHOD_CURSORS.encode(MethodCursor(is_default, created_at, method_id, behind, list_hash=of_list))
