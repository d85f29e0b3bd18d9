"""Malformed bodies of the actions on an order: each must be a 400 that repeats nothing of the body."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from tests.api.bodies import APPROVED, NOW, charge, encoded

from api.orders.add_payment import parse_payment
from api.orders.authenticate import parse_device_data, parse_validate
from api.orders.cancel import parse_cancel
from api.orders.capture import parse_capture
from api.orders.refund import parse_refund

CLABE = "032180000118359719"
PAYMENT_ID = "01a1f8e3-3e4a-7525-a048-fe0093cb03d7"


class Action(Struct, frozen=True, kw_only=True):
    """An action: its name in the path, its parser, a valid body, and the names of its fields by type."""

    name: str
    reads: Callable[[bytes], Any]
    body: dict[str, Any]
    amounts: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    is_optional: bool = False


ACTIONS = (
    Action(
        name="payments",
        reads=lambda body: parse_payment(body, NOW),
        body=charge(amount=100, externalId="part-1", description="Anticipo"),
        amounts=("amount",),
        ids=("externalId", "externalMerchantReference"),
        texts=("description",),
        objects=("paymentMethod", "billingAddress", "deviceInformation", "metadata"),
        truths=("virtualTerminal", "isVirtualTerminal"),
    ),
    Action(
        name="refund",
        reads=parse_refund,
        body={"amount": 100, "reason": "Taza rota", "destination": {"clabe": CLABE, "accountHolder": "Ana"}},
        amounts=("amount",),
        ids=("externalId", "externalMerchantReference", "reason"),
        objects=("destination",),
        uuids=("paymentId",),
    ),
    Action(
        name="cancel",
        reads=parse_cancel,
        body={"reason": "Ya no"},
        ids=("reason",),
        truths=("refundCaptured",),
        is_optional=True,
    ),
    Action(
        name="capture",
        reads=parse_capture,
        body={"amount": 100},
        amounts=("amount",),
        uuids=("paymentId",),
        is_optional=True,
    ),
    Action(
        name="payer-authentication/device-data",
        reads=parse_device_data,
        body={"referenceId": "r-1", "deviceInformation": {"ipAddress": "201.141.20.7"}},
        ids=("referenceId",),
        objects=("deviceInformation",),
        is_optional=True,
    ),
    Action(
        name="payer-authentication/validate",
        reads=parse_validate,
        body={"authenticationTransactionId": "t-1"},
        ids=("authenticationTransactionId",),
    ),
)

_NO_JSON = (b" ", b"{", b"}", b"[]", b"null", b"true", b"1", b'"x"', b"{}x", b"nope", b"amount=1", b"\xef\xbb\xbf{}")
_NUMBERS = (
    b"NaN", b"-Infinity", b'"100"', b"1e999", b"1e3000000", b"1e-3000000", b"-0.0", b"0", b"-1", b"01", b"1.", b"1e2",
    b"9" * 100_000, b"0.00001", b"1" + b"0" * 12, b"true", b"[]", b"{}",
)  # fmt: skip
_BROKEN = (b'"\xff"', b'"\xc0\xaf"', b'"\xed\xa0\x80"', rb'"\ud800"', rb'"\u0000"', b'"a\x01b"', rb'"\x41"')
_NO_TEXT = (b"1", b"true", b"[]", b"{}", b'["x"]')
_NO_OBJECT = (b"1", b"true", b"[1]", b'"x"')
_NO_TRUTH = (b"1", b'"true"', b"[]", b"{}")
_NO_UUID = (b'"x"', b"1", b'""', b'"%s"' % (b"0" * 36), b'"%s"' % APPROVED.encode(), b"{}")
_DESTINATIONS = (
    b"{}", b'{"clabe":null}', b'{"clabe":1}', b'{"clabe":""}', b'{"clabe":"03218000011835971"}',
    b'{"clabe":"032180000118359718"}', b'{"clabe":"0321800001183597190"}', '{"clabe":"٠٣٢١٨٠٠٠٠١١٨٣٥٩٧١٩"}'.encode(),
    b'{"clabe":"032180000118359719","accountHolder":"%s"}' % APPROVED.encode(),
    b'{"clabe":"032180000118359719","accountHolder":"%s"}' % (b"x" * 256),
)  # fmt: skip
_ALLOCATIONS = (
    b"{}", b"[1]", b"[{}]", b'[{"paymentId":"x","amount":1}]', b'[{"paymentId":"%s"}]' % PAYMENT_ID.encode(),
    b'[{"paymentId":"%s","amount":-1}]' % PAYMENT_ID.encode(),
    b'[{"paymentId":"%s","amount":1e999}]' % PAYMENT_ID.encode(),
    b"[" + b",".join([b'{"paymentId":"%s","amount":1}' % PAYMENT_ID.encode()] * 101) + b"]",
)  # fmt: skip


def malformed_actions() -> Iterator[tuple[str, Action, bytes]]:
    """Every malformed body with its name and its action."""
    for action in ACTIONS:
        for name, body in _of(action):
            yield f"{action.name}: {name}", action, body


def _of(action: Action) -> Iterator[tuple[str, bytes]]:
    for body in _NO_JSON if action.is_optional else (b"", b"{}", *_NO_JSON):
        yield f"no such object: {body!r}", body
    whole = encoded(action.body)
    for cut in range(1, len(whole) - 1, 5):
        yield f"cut off after {cut} bytes", whole[:cut]
    yield "trailing bytes", whole + b"{}"
    for depth in (1_000, 100_000):
        yield f"{depth} lists in an unknown field", _with(action, "unknown", b"[" * depth + b"]" * depth)
    for fields, values in (
        (action.amounts, _NUMBERS),
        (action.ids, (*_NO_TEXT, *_BROKEN, b'""', b'"%s"' % (b"x" * 256), b'"%s"' % APPROVED.encode())),
        (action.texts, (*_NO_TEXT, *_BROKEN, b'"%s"' % (b"x" * 1001), b'"%s"' % APPROVED.encode())),
        (action.objects, _NO_OBJECT),
        (action.truths, _NO_TRUTH),
        (action.uuids, _NO_UUID),
        (("destination",) if action.name == "refund" else (), _DESTINATIONS),
        (("allocations",) if action.name == "refund" else (), _ALLOCATIONS),
    ):
        for field in fields:
            for value in values:
                yield f"{field} {value[:24]!r}", _with(action, field, value)


def _with(action: Action, field: str, value: bytes) -> bytes:
    """The action's body with one field given as JSON."""
    rest = encoded({name: known for name, known in action.body.items() if name != field})
    return rest[:-1] + (b"," if len(rest) > 2 else b"") + b'"%s":%s}' % (field.encode(), value)
