"""A name that an object has twice is found at any depth and however it is escaped, and no other body is refused for it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.decoding.field_errors import FieldErrors
from api.decoding.repeated_names import errors_of_repeated_names, has_repeated_name, refuse_own_repeated_names

TEXT = st.one_of(
    st.text(max_size=6), st.sampled_from(['":', '\\"', "\\", '"', '{"a":1,"a":2}', ":", '\\u0061"', "\u00e9"])
)
NAME = st.one_of(TEXT, st.sampled_from("abc"))
SCALAR = st.one_of(TEXT, st.none(), st.booleans(), st.integers(), st.sampled_from([1.5, 1e300]))
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAME, inner, max_size=2)),
    max_leaves=5,
)
OBJECT = st.dictionaries(NAME, VALUE, max_size=4)
HUGE = b'{"n":1e999,"t":"\\ud800",%s'
"""The start of an object with values that Python does not represent."""


def written(value: Any, draw: Any) -> str:
    """Writes JSON with any space and any escapes; `_Twice` writes a member a second time."""
    if isinstance(value, dict):
        members = [f"{name(key, draw)}{space(draw)}:{space(draw)}{written(each, draw)}" for key, each in value.items()]
        return "{" + f"{space(draw)},{space(draw)}".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(each, draw) for each in value) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans())) if not isinstance(value, str) else name(value, draw)


def name(text: str, draw: Any) -> str:
    """Writes a string, some of its characters as escapes."""
    if draw(st.booleans()):
        return json.dumps(text, ensure_ascii=draw(st.booleans()))
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)) + '"'


def space(draw: Any) -> str:
    return draw(st.sampled_from(["", " ", "\n\t"]))  # type: ignore[no-any-return]


@given(OBJECT, st.data())
def test_a_body_without_a_repeated_name_is_accepted(content: dict[str, Any], data: st.DataObject) -> None:
    body = written(content, data.draw).encode()
    errors = FieldErrors({})
    refuse_own_repeated_names(body, errors)
    assert not has_repeated_name(body)
    assert errors_of_repeated_names(body) == []
    assert not errors
    if len(content) > 0 and not {"n", "t"} & content.keys():
        assert not has_repeated_name(HUGE % body[1:])


@given(OBJECT, NAME, st.lists(st.sampled_from(["object", "list"]), max_size=2), VALUE, VALUE, st.data())
def test_a_repeated_name_is_found_at_any_depth(
    beside: dict[str, Any], repeated: str, around: list[str], first: Any, second: Any, data: st.DataObject
) -> None:
    draw = data.draw
    others = [f"{name(key, draw)}:{written(value, draw)}" for key, value in beside.items() if key != repeated]
    twice = [f"{name(repeated, draw)}{space(draw)}:{written(value, draw)}" for value in (first, second)]
    text = "{" + ",".join(draw(st.permutations([*others, *twice]))) + "}"
    for kind in around:
        text = f'{{"in":{text}}}' if kind == "object" else f'{{"in":[0,{text}]}}'
    assert has_repeated_name(text.encode())
    assert len(errors_of_repeated_names(text.encode())) == 1
    assert has_repeated_name(HUGE % text.encode()[1:]) or {"n", "t"} & beside.keys()
    errors = FieldErrors({})
    refuse_own_repeated_names(text.encode(), errors)
    assert len(errors) <= (not around)
