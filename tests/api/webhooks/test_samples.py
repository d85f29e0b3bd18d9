"""Samples: one of each kind of public event in the form that it is announced, posted signed to an endpoint once."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from jsonschema import Draft202012Validator
from standardwebhooks import Webhook, WebhookVerificationError
from tests.api.openapi.description import DESCRIBED, assert_described
from tests.api.storefront import Merchant
from tests.webhooks.conftest import Start, receive

from api.http.rate_limits import RateLimiter
from ledger.domain.public_events.kinds import KINDS, Kind
from projections.events.samples import SampleRenderer, samples

__all__ = ["receive"]

PATH = "/api/v1/webhook-endpoints"
TEST = f"{PATH}/{{id}}/test"


def schema_of_message(kind: Kind) -> Any:
    """The described form of a message of a kind."""
    message = DESCRIBED["webhooks"][kind.name]["post"]["requestBody"]["content"]["application/json"]
    return {**message["schema"], "components": DESCRIBED["components"]}


def test_each_kind_has_a_sample_of_the_described_form():
    assert list(samples()) == [kind.name for kind in KINDS]
    merchant_id, at = uuid4(), datetime.now(UTC)
    renderer = SampleRenderer("production", "/api", "/lps")
    for kind in KINDS:
        body = json.loads(renderer.render(merchant_id, kind, uuid4(), at, is_thin=False))
        assert body["resource"]["type"] == kind.resource_type
        assert body["resource"]["url"].startswith(("/api/", "/lps/"))
        assert (body["test"], body["sequence"], body["environment"]) == (True, None, "production")
        data = body["data"]
        if kind.name.endswith(".deleted"):
            assert data == {"id": body["resource"]["id"], "deleted": True}
        errors = Draft202012Validator(schema_of_message(kind)).iter_errors(body | {"sequence": 1})
        assert [error.message for error in errors] == [], kind.name
        if kind.is_status:
            assert body["previousStatus"] != data.get("status"), kind.name
        assert data.get("merchantId", str(merchant_id)) == str(merchant_id)


@pytest.mark.anyio
async def test_a_sample_is_posted_signed_and_the_answer_says_what_became_of_it(merchant: Merchant, receive: Start):
    receiver = await receive()
    url = f"http://127.0.0.1:{receiver.port}/hooks"
    created = (await merchant.post(PATH, {"url": url, "events": ["customer.*"], "payload": "THIN"})).json()
    one = f"{PATH}/{created['id']}"
    answer = await merchant.post(f"{one}/test", b"")
    assert_described(answer, "post", TEST)
    assert answer.json().items() >= {"delivered": True, "responseStatus": 204, "error": None}.items()
    await merchant.put(one, {"payload": "FULL"})
    rotated = (await merchant.post(f"{one}/rotate-secret", {})).json()
    await merchant.post(f"{one}/test", {"type": "payment.captured"})
    (headers, thin), (second, full) = receiver.requests
    assert Webhook(created["secret"]).verify(thin, headers)["type"] == "customer.created"
    event = json.loads(thin)
    assert ("data" in event, event["test"], event["sequence"], event["id"]) == (
        False,
        True,
        None,
        headers["webhook-id"],
    )
    for secret in (created["secret"], rotated["secret"]):
        assert Webhook(secret).verify(full, second)["data"]["status"] == "CAPTURED"
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 43 + "=").verify(full, second)
    assert (await merchant.get(one)).json()["lastSuccessAt"] is None, "it is no delivery"

    broken = await receive(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
    await merchant.put(one, {"url": f"http://127.0.0.1:{broken.port}/"})
    refused = (await merchant.post(f"{one}/test", {})).json()
    assert (refused["delivered"], refused["responseStatus"]) == (False, 500)
    assert "answered 500" in refused["error"]


@pytest.mark.anyio
async def test_a_sample_is_refused_for_a_disabled_endpoint_and_an_unknown_kind(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    one = f"{PATH}/{(await merchant.post(PATH, {'url': 'http://127.0.0.1:9/'})).json()['id']}"
    for kind in ("payment.*", "payment.x", 1):
        wrong = await merchant.post(f"{one}/test", {"type": kind})
        assert [error["field"] for error in wrong.json()["errors"]] == ["type"]
        assert_described(wrong, "post", TEST)
    alike = await merchant.post(f"{one}/test", {"type": "payment.captur"})
    assert alike.json()["errors"][0]["message"].endswith("; did you mean payment.captured?")
    await merchant.put(one, {"status": "DISABLED"})
    disabled = await merchant.post(f"{one}/test", {})
    assert (disabled.status_code, disabled.json()["code"]) == (409, "WEBHOOK_ENDPOINT_DISABLED")
    assert_described(disabled, "post", TEST)
    monkeypatch.setattr("api.http.rate_limits.TESTS_PER_MINUTE", 1)
    limited = await merchant.post(f"{one}/test", {})
    assert (limited.status_code, limited.json()["code"]) == (429, "RATE_LIMIT_EXCEEDED")


def test_a_merchant_tests_so_often_in_a_minute():
    limiter, merchant_id = RateLimiter(clock=lambda: 100.0), uuid4()
    for _ in range(60):
        limiter.admit_webhook_test(merchant_id)
    limiter.admit_webhook_test(uuid4())
    with pytest.raises(Exception, match="60 times in a minute"):
        limiter.admit_webhook_test(merchant_id)
    limiter.close()
