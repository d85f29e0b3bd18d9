"""The short way to a body without a repeated name never passes one that the full search refuses, whatever is sent."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from benchmarks.load.order_body import BODY, CARD
from hypothesis import given
from hypothesis import strategies as st

from api.decoding.decoded_names import DecodedNames
from api.decoding.repeated_names import errors_of_repeated_names, has_repeated_name
from api.orders.create import CreatePaymentOrder

NAMES = DecodedNames(CreatePaymentOrder)
decode = msgspec.json.Decoder(CreatePaymentOrder).decode

WHOLE: dict[str, Any] = {
    **BODY,
    "pending": True,
    "paymentMethod": {**CARD, "options": {"card": CARD["cardDetails"]}},
    "customerFiscalData": {"taxId": "XAXX010101000", "address": {"street": "Juárez"}},
    "items": [{**BODY["lineItems"][0], "metadata": {"a": [{"b": 1}, {"b": 1.50}]}, "discount": None}],
}
TEXT = st.one_of(st.text(max_size=8), st.sampled_from(['":', "\\", '"', '{"a":1,"a":2}', "é", "\n", ""]))
JSON = st.recursive(
    st.one_of(TEXT, st.none(), st.booleans(), st.integers(), st.sampled_from([1.5, 0.10, 1e22])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


class Written:
    """Writes JSON with spaces, escapes and repeated members where `draw` wants them."""

    def __init__(self, data: st.DataObject, *, compact: bool, escapes: bool, twice: bool) -> None:
        self._draw, self._compact, self._escapes = data.draw, compact, escapes
        self._twice = twice
        self.repeats = False

    def text(self, value: Any) -> str:
        if isinstance(value, dict):
            members = [f"{self.scalar(name)}{self.colon()}{self.text(each)}" for name, each in value.items()]
            if members and self._twice and not self.repeats and self._draw(st.integers(0, 8)) == 0:
                name = self._draw(st.sampled_from(list(value)))
                members.insert(
                    self._draw(st.integers(0, len(members))),
                    f"{self.scalar(name)}{self.colon()}{self.text(value[name])}",
                )
                self.repeats = True
            return "{" + self.comma().join(members) + "}"
        if isinstance(value, list):
            return "[" + self.comma().join(map(self.text, value)) + "]"
        return self.scalar(value)

    def scalar(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=self._escapes and self._draw(st.booleans()))

    def colon(self) -> str:
        return ":" if self._compact else self._draw(st.sampled_from([": ", ":", " :\t"]))

    def comma(self) -> str:
        return "," if self._compact else self._draw(st.sampled_from([", ", ",", "\n,"]))


@given(st.data(), st.booleans(), st.booleans(), st.booleans())
def test_no_body_with_a_repeated_name_is_passed(data: st.DataObject, compact: bool, escapes: bool, twice: bool) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(WHOLE)), unique=True, min_size=1))
    content = {"amount": 1, "currency": "MXN"} | {name: WHOLE[name] for name in names}
    content |= {"metadata": data.draw(st.dictionaries(TEXT, JSON, max_size=4)), "description": data.draw(TEXT)}
    content = {name: content[name] for name in data.draw(st.permutations(list(content)))}
    written = Written(data, compact=compact, escapes=escapes, twice=twice)
    body = written.text(content).encode()
    assert has_repeated_name(body) == written.repeats == bool(errors_of_repeated_names(body))
    if NAMES.are_single(body, decode(body)):
        assert not written.repeats


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize("method", [None, CARD], ids=["pending", "card"])
def test_the_bodies_of_most_merchants_take_the_short_way(separators: tuple[str, str], method: Any) -> None:
    content = {**BODY, "paymentMethod": method} if method else {**BODY, "pending": True}
    body = json.dumps(content, ensure_ascii=False, separators=separators).encode()
    assert NAMES.are_single(body, decode(body))
    twice = body[:-1] + separators[0].encode() + json.dumps("amount").encode() + separators[1].encode() + b"284870}"
    assert not NAMES.are_single(twice, decode(twice))


class Growing(msgspec.Struct, omit_defaults=True):
    """Encodes a number with more bytes than it was sent with."""

    rate: float
    name: str | None = None


class Stating(msgspec.Struct):
    """Encodes members that were not sent."""

    name: str | None = None
    other: str | None = None


class Tagged(msgspec.Struct, omit_defaults=True, tag="a"):
    """Encodes its tag, which need not be sent."""

    name: str | None = None


class Deep(msgspec.Struct, omit_defaults=True):
    """Has a raw value deeper than the search looks."""

    inner: Inner | None = None


class Inner(msgspec.Struct, omit_defaults=True):
    """A struct with a raw value."""

    raw: msgspec.Raw


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (Growing, b'{"rate":1e12,"name":"a","name":"a"}'),
        (Stating, b'{"name":"abc","name":"d"}'),
        (Tagged, b'{"name":"a","name":"c"}'),
        (Deep, b'{"inner":{"raw":{"b":1,"b":2}}}'),
    ],
)
def test_a_struct_whose_length_proves_nothing_is_never_compared(schema: Any, body: bytes) -> None:
    sent = msgspec.json.decode(body, type=schema)
    assert len(msgspec.json.encode(sent)) == len(body)
    assert has_repeated_name(body)
    assert not DecodedNames(schema).are_single(body, sent)
