"""Signatures, verified by the library of the standard's authors."""

from base64 import b64decode
from datetime import UTC, datetime, timedelta, timezone

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from ledger.webhooks.signing import PREFIX, new_secret, signed_headers

BODY = '{"id":"1","data":{"name":"José «ñ» \\u0000"}}'.encode()


def test_a_receiver_verifies_a_message_by_the_old_or_the_new_secret_and_by_no_other():
    old, new = new_secret(), new_secret()
    at = datetime.now(UTC).astimezone(timezone(timedelta(hours=-6)))
    headers = signed_headers("0190-a", BODY, (new, old), at)
    for secret in (old, new):
        assert Webhook(secret).verify(BODY, headers)["id"] == "1"
    for secret, body, changed in (
        (new_secret(), BODY, {}),
        (new, BODY + b" ", {}),
        (new, BODY, {"webhook-id": "0190-b"}),
        (new, BODY, {"webhook-timestamp": str(int(at.timestamp()) + 1)}),
        (old, BODY, {"webhook-signature": headers["webhook-signature"].split(" ")[0]}),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, headers | changed)


def test_a_secret_is_32_random_bytes():
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {len(b64decode(secret.removeprefix(PREFIX), validate=True)) for secret in secrets} == {32}
