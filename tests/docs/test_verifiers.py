"""The verifiers of the page about webhooks accept what the service signs, and nothing else."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.docs.pages import ROOT, blocks
from tests.webhooks.conftest import Start, local, receive

from ledger.webhooks.client import WebhookClient
from ledger.webhooks.signing import new_secret, signed_headers

__all__ = ["local", "receive"]

PROGRAMS = {
    language: content
    for language, content in blocks(ROOT / "docs" / "how-to" / "verify-webhooks.md")
    if language in ("python", "js", "php")
}
IN_NODE = """%s
const cases = JSON.parse(Buffer.from("%s", "base64"));
console.log(JSON.stringify(cases.map(([s, h, b]) => verified(s, h, Buffer.from(b, "base64")))));
"""
IN_PHP = """<?php
%s
$cases = json_decode(base64_decode("%s"), true);
echo json_encode(array_map(fn ($each) => verified($each[0], $each[1], base64_decode($each[2])), $cases));
"""
RUN = {"js": (["node", "-"], IN_NODE), "php": (["php"], IN_PHP)}


def cases() -> Iterator[tuple[str, dict[str, str], bytes, bool]]:
    """Secrets, headers, bodies, and whether they are to be accepted."""
    secret, other = new_secret(), new_secret()
    body = '{"name":"Almacén","amount":1500.50}'.encode()
    now = datetime.now(UTC)
    good = signed_headers("id-1", body, [secret], now)
    yield secret, good, body, True
    yield secret, signed_headers("id-1", body, [other, secret], now), body, True
    yield secret, signed_headers("id-1", b"", [secret], now - timedelta(minutes=4)), b"", True
    yield other, good, body, False
    yield secret, good, body + b" ", False
    yield secret, good, json.dumps(json.loads(body)).encode(), False
    yield secret, good | {"webhook-id": "id-2"}, body, False
    yield secret, good | {"webhook-timestamp": str(int(now.timestamp()) + 1)}, body, False
    for minutes in (-6, 6):
        yield secret, signed_headers("id-1", body, [secret], now + timedelta(minutes=minutes)), body, False
    for name in good:
        yield secret, {key: value for key, value in good.items() if key != name}, body, False
        for wrong in ("", "é", "v1,", "1e9", "v1", good[name] * 2):
            yield secret, good | {name: wrong}, body, False
    yield secret, good | {"webhook-signature": good["webhook-signature"].replace("v1,", "v2,")}, body, False


def test_each_has_at_most_twenty_lines():
    assert {language: len(program.splitlines()) <= 20 for language, program in PROGRAMS.items()} == {
        "python": True, "js": True, "php": True
    }  # fmt: skip


def test_python_verifies_what_the_service_signs():
    program: dict[str, Any] = {}
    exec(PROGRAMS["python"], program)
    for secret, headers, body, accepted in cases():
        assert program["verified"](secret, headers, body) is accepted, headers


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.parametrize("language", RUN)
async def test_other_languages_verify_what_arrives_and_what_the_service_signs(
    language: str, receive: Start, local: WebhookClient
) -> None:
    if shutil.which(RUN[language][0][0]) is None:
        pytest.skip(f"{RUN[language][0][0]} is not installed")
    receiver, secret = await receive(), new_secret()
    attempt = await local.post(f"http://127.0.0.1:{receiver.port}/", "id-1", '{"name":"Almacén"}'.encode(), [secret])
    assert attempt.is_delivered
    ((headers, body),) = receiver.requests
    made = [(secret, headers, body, True), (secret, headers, body[:-1], False), *cases()]
    assert verdicts(language, made) == [accepted for *_, accepted in made]


def verdicts(language: str, made: Sequence[tuple[str, dict[str, str], bytes, bool]]) -> list[bool]:
    """Returns what the page's program in a language says of each case."""
    command, program = RUN[language]
    sent = [(secret, headers, base64.b64encode(body).decode()) for secret, headers, body, _ in made]
    source = program % (PROGRAMS[language], base64.b64encode(json.dumps(sent).encode()).decode())
    ended = subprocess.run(command, input=source.encode(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    found: list[bool] = json.loads(ended.stdout)
    return found
