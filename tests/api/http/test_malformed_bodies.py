"""Malformed bodies never make the service fail, and no error repeats what was sent."""

from __future__ import annotations

import re

import pytest
from tests.api.bodies import drafted, encoded, refusal_of
from tests.api.http.malformed import harmless, malformed
from tests.api.http.malformed_actions import ACTIONS, Action, malformed_actions

from api.http.error_responses import error_response


@pytest.mark.parametrize(("name", "body"), list(malformed()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_malformed_body_is_a_400_that_names_a_field_and_repeats_nothing(name: str, body: bytes):
    refusal = refusal_of(body)
    said = error_response(refusal, "r").body.decode()
    assert not re.search(r"\d{13}|4242|drop table|\\u0000|order-1", said)
    assert all(re.fullmatch(r"[A-Za-z.\[\]0-9]+", error.field) for error in refusal.errors)
    assert refusal.__suppress_context__ or refusal.__context__ is None, "a traceback would show the value"


@pytest.mark.parametrize(("name", "body"), list(harmless()), ids=lambda value: value if isinstance(value, str) else "")
def test_an_unusual_but_valid_body_creates_an_order(name: str, body: bytes):
    assert drafted(body).terms.external_id == "order-1"


def test_the_corpus_is_large():
    assert len(list(malformed())) >= 300


@pytest.mark.parametrize(
    ("name", "action", "body"), list(malformed_actions()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_malformed_action_is_a_400_that_names_a_field_and_repeats_nothing(name: str, action: Action, body: bytes):
    refusal = refusal_of(body, action.reads)
    said = error_response(refusal, "r").body.decode()
    assert not re.search(r"\d{13}|4242|\\u0000|Taza", said)
    assert all(re.fullmatch(r"[A-Za-z.\[\]0-9]+", error.field) for error in refusal.errors)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_a_right_action_is_read_whatever_else_is_sent(action: Action):
    odd = {"unknown": [{"a": [None, 1e5]}]} | action.body
    assert action.reads(encoded(odd)) == action.reads(encoded(action.body))
    if action.is_optional:
        assert action.reads(b"{}")


def test_the_corpus_of_actions_is_large():
    assert len(list(malformed_actions())) >= 300
