"""Malformed bodies of a create: each must be a 400 that repeats nothing of the body."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from functools import cache

from tests.api.bodies import APPROVED, encoded, order, paid_order

_ORDER = encoded(order())
_PAID = encoded(paid_order())


def _with(field: str, value: bytes) -> bytes:
    """The order with one more field, given as JSON."""
    return _ORDER[:-1] + b',"%s":%s}' % (field.encode(), value)


def malformed() -> Iterator[tuple[str, bytes]]:
    """Every malformed body with a name."""
    yield from _no_json()
    yield from _wrong_encoding()
    yield from _numbers()
    yield from _types()
    yield from _dates()
    yield from _huge()
    yield from _card_numbers_in_wrong_places()


def harmless() -> Iterator[tuple[str, bytes]]:
    """Unusual bodies that are valid orders."""
    yield "an unknown field of any shape", _with("unknown", b'[{"a":[null,true,1e5,"\\u00e9"]}]')
    yield "whitespace everywhere", b" \n\t" + _ORDER.replace(b",", b" ,\n ") + b" \n"
    yield "escaped names", _ORDER.replace(b"amount", b"\\u0061mount")
    yield "nesting in an ignored field", _with("unknown", b"[" * 400 + b"]" * 400)
    yield "a date without an offset", _with("dueDate", b'"2026-04-01T00:00:00"')
    yield "many unknown fields", b"{" + b",".join(b'"u%d":0' % n for n in range(10_000)) + b"," + _ORDER[1:]


def _no_json() -> Iterator[tuple[str, bytes]]:
    for body in (b"", b" ", b"{", b"}", b"[]", b"null", b"true", b"1", b'"x"', b"{}x", b"{},", b"nope", b"amount=1"):
        yield f"no object: {body!r}", body
    for cut in range(1, len(_ORDER) - 1, 7):
        yield f"cut off after {cut} bytes", _ORDER[:cut]
    yield "trailing bytes", _ORDER + b"{}"
    yield "a gzip bomb", gzip.compress(b"{" + b" " * (10 << 20) + _ORDER[1:])
    yield "a deflate bomb", zlib.compress(b"{" + b" " * (10 << 20) + _ORDER[1:])
    yield "a trailing comma", _ORDER[:-1] + b",}"
    yield "single quotes", _ORDER.replace(b'"', b"'")
    yield "a comment", b"/* order */" + _ORDER
    yield "a byte order mark", b"\xef\xbb\xbf" + _ORDER
    yield "UTF-16", _ORDER.decode().encode("utf-16")
    yield "a bare control character", _with("description", b'"a\x01b"')
    yield "an unknown escape", _with("description", rb'"\x41"')
    yield "a short unicode escape", _with("description", rb'"\u12"')


def _wrong_encoding() -> Iterator[tuple[str, bytes]]:
    broken = {
        "invalid byte": b"\xff",
        "cut sequence": b"\xc3",
        "overlong slash": b"\xc0\xaf",
        "overlong NUL": b"\xe0\x80\x80",
        "surrogate bytes": b"\xed\xa0\x80",
        "beyond Unicode": b"\xf4\x90\x80\x80",
    }
    for name, piece in broken.items():
        yield f"{name} in a text", _with("description", b'"a%sb"' % piece)
        yield f"{name} in metadata", _with("metadata", b'{"a":"%s"}' % piece)
        yield f"{name} in an unknown field", _with("unknown", b'"%s"' % piece)
        yield f"{name} in a name", _with("un" + "known", b"1").replace(b"unknown", b"un%sknown" % piece)
    for name, piece in {"high": rb"\ud800", "low": rb"\udc00", "pair the wrong way": rb"\udc00\ud800"}.items():
        yield f"lone {name} surrogate in a text", _with("description", b'"%s"' % piece)
        yield f"lone {name} surrogate in metadata", _with("metadata", b'{"a":"%s"}' % piece)
        yield f"lone {name} surrogate in an id", _ORDER.replace(b"order-1", piece)
    for place in ("description", "invoiceNumber"):
        for character in (rb"\u0000", rb"\u001b", rb"\u007f", rb"\u0085"):
            yield f"{character!r} in {place}", _with(place, b'"a%s"' % character)
    yield "NUL in an id", _ORDER.replace(b"order-1", rb"a\u0000b")
    yield "NUL in a metadata key", _with("metadata", rb'{"\u0000":1}')
    yield "NUL in a metadata value", _with("metadata", rb'{"a":["\u0000"]}')


def _numbers() -> Iterator[tuple[str, bytes]]:
    numbers = [
        b"NaN", b"-NaN", b"Infinity", b"-Infinity", b'"NaN"', b'"sNaN"', b'"Infinity"', b'"100"', b"1e999", b"1e3000000",
        b"-1e3000000", b"1e-3000000", b"-0.0", b"-0", b"0", b"00", b"01", b"+1", b".5", b"1.", b"1e", b"0x10", b"1_000",
        b"9" * 100_000, b"0." + b"0" * 100_000 + b"1", b"1" + b"0" * 12, b"true", b"false", b"[]", b"{}", b"null", b'""',
    ]  # fmt: skip
    for number in numbers:
        name = number[:20].decode()
        yield f"amount {name}", _ORDER.replace(b"150000", number)
        line = b'[{"description":"a","quantity":2,"unitPrice":%s}]' % number
        yield f"unit price {name}", _with("lineItems", line)
        yield f"quantity {name}", _with("lineItems", b'[{"description":"a","quantity":%s,"unitPrice":150000}]' % number)
    yield "amount of a million digits", _ORDER.replace(b"150000", b"9" * 1_000_000)
    yield "an unknown number of a million digits and no amount", b'{"unknown":%s}' % (b"9" * 1_000_000)
    for number in (b"1e999", b"-1e999", b"1e3000000"):
        yield f"metadata {number.decode()}", _with("metadata", b'{"a":%s}' % number)


def _types() -> Iterator[tuple[str, bytes]]:
    fields = ("externalId", "customer", "pending", "description", "billingAddress", "metadata", "dueDate", "lineItems")
    wrong = {
        "number": b"1",
        "text": b'"x"',
        "list": b"[1]",
        "object": b'{"a":1}',
        "truth": b"true",
        "nested": b"[[{}]]",
    }
    right = {
        ("externalId", "text"), ("description", "text"), ("pending", "truth"), ("metadata", "object"),
        ("billingAddress", "object"),
    }  # fmt: skip
    for field in fields:
        for kind, value in wrong.items():
            if (field, kind) not in right:
                yield f"{field} as {kind}", _with(field, value)
    for field, value in (
        ("amount", b'"x"'),
        ("currency", b"1"),
        ("externalId", b"[]"),
        ("customer", b"7"),
        ("pending", b"0"),
    ):
        yield f"{field} twice, the last one wrong", _with(field, value)
    yield "currency twice, both right", _with("currency", b'"USD"')
    yield "a name twice, once with an escape", _with("\\u0063urrency", b'"MXN"')
    yield "a name twice in metadata", _with("metadata", b'{"a":[{"b":1,"b":1}]}')
    for value in (
        b'"card"',
        b"{}",
        b'{"type":null}',
        b'{"type":["card"]}',
        b'{"type":"card","type":"x"}',
        b'{"type":"x","type":"card"}',
    ):
        yield f"paymentMethod {value.decode()}", _with("paymentMethod", value)


def _dates() -> Iterator[tuple[str, bytes]]:
    dates = [
        "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "2026-01-01T00:00:60Z", "2026-02-30", "2026-13-01", "2026-1-1", "now",
        "", "1767225600",
        "2026-01-01T00:00:00+99:99", "+002026-01-01T00:00:00Z", "2026-01-01T00:00:00Z; drop table event",
    ]  # fmt: skip
    for date in dates:
        yield f"dueDate {date}", _with("dueDate", b'"%s"' % date.encode())


@cache
def _keys(count: int) -> bytes:
    """Returns an object with so many keys. A million of them take a while, and the corpus is used by four tests."""
    numbers = str(list(range(count)))  # by C: without a line of Python for each
    return b'{"k%s":1}' % numbers.strip("[]").replace(", ", '":1,"k').encode()


def _huge() -> Iterator[tuple[str, bytes]]:
    for depth in (100, 1_000, 10_000, 100_000):
        nested = b"[" * depth + b"]" * depth
        yield f"{depth} lists deep in metadata", _with("metadata", b'{"a":%s}' % nested)
        yield f"{depth} lists deep in place of a line", _with("lineItems", nested)
        yield f"{depth} objects deep in an address", _with("billingAddress", b'{"city":' * depth + b"1" + b"}" * depth)
    for depth in (1_000, 10_000, 100_000):
        nested = b"[" * depth + b"]" * depth
        yield f"{depth} lists deep in an unknown field", _with("unknown", nested)
        yield f"{depth} open lists", b"[" * depth
        yield f"{depth} objects deep", b'{"a":' * depth + b"1" + b"}" * depth
    yield "eleven levels of metadata", _with("metadata", b'{"a":' * 11 + b"1" + b"}" * 11)
    yield "20,000 metadata keys", _with("metadata", _keys(20_000))
    yield "a million metadata keys", _with("metadata", _keys(1_000_000))
    yield "a long text", _with("description", b'"' + b"x" * 200_000 + b'"')
    yield "a long id", _ORDER.replace(b"order-1", b"x" * 200_000)
    yield "10,000 lines", _with("lineItems", b"[" + b",".join([b"{}"] * 10_000) + b"]")


def _card_numbers_in_wrong_places() -> Iterator[tuple[str, bytes]]:
    number = APPROVED.encode()
    for field in (
        "currency",
        "captureMethod",
        "dueDate",
        "pending",
        "customer",
        "billingAddress",
        "amount",
        "metadata",
    ):
        yield f"a card number as {field}", _with(field, b'"%s"' % number)
    for field in (b"type", b"cvc", b"expiryMonth", b"expiryYear"):
        yield (
            f"a card number as {field.decode()}",
            _PAID[:-1]
            + b',"paymentMethod":{"type":"card","cardDetails":%s}}'
            % (b'{"number":"4000000000000002","%s":"%s"}' % (field, number)),
        )
    yield "a card number as method", _PAID[:-1] + b',"paymentMethod":{"type":"%s"}}' % number
    yield "a card number in an invoice number", _with("invoiceNumber", b'"%s"' % number)
    yield "a card number in cut-off JSON", b'{"cardDetails":{"number":"%s' % number
    yield (
        "a card number as a tax",
        _with("lineItems", b'[{"description":"a","quantity":1,"unitPrice":1,"taxes":[{"type":"%s"}]}]' % number),
    )
