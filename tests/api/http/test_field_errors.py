"""All wrong fields of one request, in one 400."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw, Struct

from api.decoding.bodies import BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.errors import ApiError, invalid, order_not_found, required


class Inner(Struct, rename="camel", forbid_unknown_fields=True):
    first: int = 0
    second: int = 0


class Body(Struct, rename="camel", forbid_unknown_fields=True):
    inner: Inner | None = None
    names: list[str] | None = None
    last_name: str = ""


def refused(errors: FieldErrors) -> ApiError:
    with pytest.raises(ApiError) as caught:
        errors.refuse()
    return caught.value


def test_a_misspelt_name_with_brackets_is_named_beside_other_errors():
    _, errors = BodyDecoder(Body).gather(b'{"names[x": 1, "lastName": 1}')
    assert {each.field for each in refused(errors).errors} == {"names[x", "lastName"}


def test_a_name_that_comes_twice_is_named_by_its_path_and_only_once():
    body = b'{"inner": {"first": 1, "\\u0066irst": "a", "first": 2}, "other": [[{"a": 1, "a": 1}]], "lastName": 5}'
    _, errors = BodyDecoder(Body).gather(body)
    assert [(each.field, each.code) for each in refused(errors).errors] == [
        ("inner.first", "DUPLICATE_FIELD"),
        ("other[0][0].a", "DUPLICATE_FIELD"),
        ("lastName", "INVALID_TYPE"),
    ]
    assert refused(errors).message == "inner.first appears twice: send it once. 2 more fields are wrong: see errors."


def test_of_a_repeated_name_that_may_be_a_secret_only_the_place_is_named():
    body = b'{"other": {"4242424242424242": 1, "4242424242424242": 1}, "names": [], "cvc:123": 1, "cvc:123": 1}'
    _, errors = BodyDecoder(Body).gather(body)
    assert "424242" not in str(refused(errors).errors)
    assert "123" not in str(refused(errors).errors)


def test_a_body_without_a_repeated_name_is_not_refused_for_its_texts():
    _, errors = BodyDecoder(Body).gather(
        rb'{"lastName": "\":\"lastName\": \\", "inner": {"first": 1}, "names": [":", "{\"a\":1,\"a\":1}"]}'
    )
    assert not errors


def test_fields_come_in_the_order_of_the_body_at_every_depth_and_missing_ones_last():
    _, errors = BodyDecoder(Body).gather(
        b'{"lastName": 1, "other": 2, "inner": {"second": "b", "first": "a"}, "names": [1]}'
    )
    errors.add(required("missing"))
    errors.add(invalid("names[1]", "is wrong"))
    fields = ["lastName", "inner.second", "inner.first", "names[0]", "names[1]", "missing"]
    assert [each.field for each in refused(errors).errors] == fields
    assert refused(errors).message == "lastName must be a string. 5 more fields are wrong: see errors."


def test_what_can_be_decoded_is_returned():
    body, errors = BodyDecoder(Body).gather(b'{"lastName": "a", "inner": {"second": 2, "first": "a"}, "names": 1}')
    assert body == Body(inner=Inner(second=2), last_name="a")
    assert [errors.has(name) for name in ("inner", "inner.first", "inner.second", "names", "lastName")] == [
        True, True, False, True, False,
    ]  # fmt: skip


def test_a_field_is_named_once_and_twenty_at_most():
    errors = FieldErrors({f"f{n}": None for n in range(30)})
    for n in reversed(range(30)):
        errors.add(invalid(f"f{n}", "is wrong"))
        errors.add(invalid(f"f{n}", "is wrong again"))
    error = refused(errors)
    assert [each.field for each in error.errors] == [f"f{n}" for n in range(20)]
    assert {each.message for each in error.errors} == {"is wrong"}
    assert error.message.endswith("29 more fields are wrong: see errors.")


def test_a_place_is_before_the_fields_that_are_checked():
    errors = FieldErrors({"settings": Raw(b'{"b": 1, "a": 2}')}, "settings")
    errors.add(invalid("a", "is wrong"))
    errors.add(invalid("b", "is wrong"))
    assert [each.field for each in refused(errors).errors] == ["settings.b", "settings.a"]
    assert (errors.has("a"), errors.has("c")) == (True, False)


def test_what_is_not_about_the_fields_is_raised_at_once():
    errors = FieldErrors({})
    with pytest.raises(ApiError) as caught:
        errors.add(ApiError(404, "NOT_FOUND", "There is no such thing."))
    assert caught.value.status == 404
    errors.refuse()
    with pytest.raises(type(order_not_found())):
        errors.check(lambda: (_ for _ in ()).throw(order_not_found()))


@pytest.mark.parametrize("body", [b"[]", b"1", b"{", b"\xff"])
def test_a_body_without_fields_is_refused(body: bytes):
    with pytest.raises(ApiError):
        BodyDecoder(Body).gather(body)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[" * 50_000, "is nested too deeply"),
        (b'{"other": ' + b"[" * 50_000, "is nested too deeply"),
        (b"[1,", "must be valid JSON: it ends before it is complete"),
        (b"[1]x", "must be valid JSON: it is malformed at byte 4"),
        (b"12x", "must be valid JSON: it is malformed at byte 3"),
        (b"[1]", "must be an object"),
        (b'"text"', "must be an object"),
    ],
)
def test_a_body_that_is_no_json_is_refused_for_that_even_if_it_begins_as_a_list(body: bytes, problem: str):
    with pytest.raises(ApiError) as caught:
        BodyDecoder(Body).gather(body)
    assert [(each.field, each.message) for each in caught.value.errors] == [("body", problem)]


def test_many_wrong_entries_read_the_body_once(monkeypatch: pytest.MonkeyPatch):
    errors = FieldErrors({"names": Raw(b"[]"), "inner": Raw(b"{}")})
    for n in range(1000):
        errors.add(invalid(f"names[{n}]", "is wrong"))
        errors.add(invalid(f"inner.f{n}", "is wrong"))
    decodes = []
    decode = msgspec.json.decode
    monkeypatch.setattr(msgspec.json, "decode", lambda *given, **more: decodes.append(1) or decode(*given, **more))
    assert refused(errors).errors[0].field == "names[0]"
    assert len(decodes) == 1


def test_a_type_is_examined_once_however_many_wrong_bodies_come(monkeypatch):
    """Examining a type takes milliseconds, during which the process answers no other request."""
    wrong = b'{"inner": {"first": "a", "unknown": 1}, "names": [5], "unknown": {}, "lastName": 5}'
    decoder = BodyDecoder(Body)
    _, before = decoder.gather(wrong)
    examined = list[object]()
    monkeypatch.setattr(msgspec.inspect, "type_info", examined.append)
    monkeypatch.setattr(msgspec.structs, "fields", examined.append)
    _, after = decoder.gather(wrong)
    assert examined == []
    assert refused(after).errors == refused(before).errors
