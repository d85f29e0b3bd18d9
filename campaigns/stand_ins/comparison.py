"""Compares the fake of Stripe with Stripe World, call by call: status, error, and every field of each answer.

Ids, times and random values are put out of the comparison. `expected` has the differences that stay, each with its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Self
from urllib.parse import urlencode

import httpx
from msgspec import Struct

from campaigns.stand_ins.expected import Rule
from campaigns.stand_ins.script import Scenario, Step, scenarios

_ID: Final = re.compile(r"\b(pi|ch|pm|cus|re|txn|du|dp|evt|po|req|src|acct|card|tok)_[A-Za-z0-9_]{8,}")
_REFERENCE: Final = re.compile(r"\{(\w+)\.(\w+)\}")
RANDOM: Final = frozenset(
    {
        "client_secret",
        "fingerprint",
        "receipt_url",
        "network_transaction_id",
        "authorization_code",
        "invoice_prefix",
        "reference",
    }
)


class Difference(Struct, frozen=True, kw_only=True):
    """A place where two answers differ."""

    call: str
    place: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.call[:200]}\n    {self.place}: fake {_short(self.ours)}, Stripe World {_short(self.theirs)}"


class Outcome(Struct, frozen=True, kw_only=True):
    """How many calls were compared, how many differences a rule expects, the others, and the rules that expect none."""

    calls: int
    expected: int
    differences: list[Difference]
    unused: list[Rule]


class Side:
    """One of the two: its address, and the answers that later steps name."""

    def __init__(self, address: str, key: str) -> None:
        self._client = httpx.Client(base_url=address, auth=(key, ""), timeout=30, trust_env=False)
        self._named: dict[str, Any] = {}

    def begin(self) -> None:
        """Forgets the answers of the scenario before."""
        self._named = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, step: Step) -> tuple[int, Any, bool]:
        """Makes the call; returns the status, the body, and whether it was a replay."""
        parameters = {name: self._filled(value) for name, value in step.parameters.items()}
        headers = {"Idempotency-Key": step.key} if step.key else {}
        path = self._filled(step.path)
        if step.method == "GET":
            answer = self._client.get(path, params=parameters)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            answer = self._client.post(path, content=urlencode(parameters), headers=headers)
        body = json.loads(answer.content)
        self._named[step.name] = body
        return answer.status_code, body, answer.headers.get("idempotent-replayed") == "true"

    def _filled(self, text: str) -> str:
        return _REFERENCE.sub(lambda match: str(self._named.get(match[1], {}).get(match[2], "none")), text)


def compare(ours: Side, theirs: Side, rules: Sequence[Rule]) -> Outcome:
    """Makes every call on both sides."""
    calls, expected = 0, 0
    others: list[Difference] = []
    unused = list(rules)
    for scenario in scenarios():
        ours.begin()
        theirs.begin()
        for step in scenario.steps:
            calls += 1
            for found in _differences(scenario, step, ours.ask(step), theirs.ask(step)):
                covering = [rule for rule in rules if rule.covers(found.call, found.place)]
                unused = [rule for rule in unused if rule not in covering]
                expected += bool(covering)
                others += [] if covering else [found]
    return Outcome(calls=calls, expected=expected, differences=others, unused=unused)


def _differences(
    scenario: Scenario, step: Step, ours: tuple[int, Any, bool], theirs: tuple[int, Any, bool]
) -> Iterator[Difference]:
    if ours[0] != theirs[0]:
        found = [("status", _brief(*ours), _brief(*theirs))]
    else:
        found = list(_walk("", _answer(*ours), _answer(*theirs)))
    call = f"{scenario.name}: {step.method} {step.path} {step.parameters}"
    for place, one, other in found:
        yield Difference(call=call, place=place, ours=one, theirs=other)


def _brief(status: int, body: Any, _: bool) -> str:
    """Returns a status, with the error where there is one."""
    error = body.get("error") or {}
    return f"{status} {error.get('code') or ''} {error.get('message') or ''}".strip()


def _answer(status: int, body: Any, replayed: bool) -> Any:
    return {"status": status, "replayed": replayed, "body": normal(body)}


def normal(value: Any, name: str = "") -> Any:
    """Returns an answer without what differs from run to run."""
    if isinstance(value, dict):
        return {key: normal(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [normal(each, name) for each in value]
    if value is not None and name in RANDOM:
        return f"<{name}>"
    if isinstance(value, int) and not isinstance(value, bool) and value > 1_500_000_000 and name != "amount":
        return "<time>"
    return _ID.sub(r"<\1>", value) if isinstance(value, str) else value


def _walk(place: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _walk(f"{place}.{key}" if place else key, ours.get(key, "(absent)"), theirs.get(key, "(absent)"))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _walk(f"{place}.{index}", one, other)
    elif ours != theirs:
        yield place, ours, theirs


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."
