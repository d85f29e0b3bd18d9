"""Events that are posted to a program on the operator's machine."""

from types import SimpleNamespace

import pytest
from standardwebhooks import Webhook
from tests.webhooks.conftest import receive

from ledger.cli.forwarding import Forwarder
from ledger.settings import CannotRun, read_settings

__all__ = ["receive"]
pytestmark = pytest.mark.anyio
EVENTS = [SimpleNamespace(sequence=n, id=f"id-{n}", kind=SimpleNamespace(name="payment.captured")) for n in (7, 8)]
BODIES = [b'{"sequence":7}', b'{"sequence":8}']
SANDBOX = read_settings({})


async def test_each_event_is_posted_once_in_order_with_a_signature_of_the_printed_secret(receive, capsys):
    receiver = await receive()
    async with Forwarder(f"http://127.0.0.1:{receiver.port}/hooks", SANDBOX) as forwarder:
        await forwarder.send(EVENTS, BODIES)
    (label, secret), *lines = (
        line.rsplit(" ", 1) if n == 0 else line for n, line in enumerate(capsys.readouterr().out.splitlines())
    )
    assert label == "signing secret"
    assert [Webhook(secret).verify(body, headers)["sequence"] for headers, body in receiver.requests] == [7, 8]
    assert [headers["webhook-id"] for headers, _ in receiver.requests] == ["id-7", "id-8"]
    assert [line.split(",")[0] for line in lines] == ["7 payment.captured 204", "8 payment.captured 204"]


async def test_a_refusal_is_printed_and_the_next_event_goes_on(receive, capsys):
    receiver = await receive(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
    async with Forwarder(f"http://localhost:{receiver.port}/", SANDBOX) as forwarder:
        await forwarder.send(EVENTS, BODIES)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(":")[0] for line in lines] == [
        f"{n} payment.captured The receiver answered 500 Internal Server Error" for n in (7, 8)
    ]
    assert len(receiver.requests) == 2


@pytest.mark.parametrize(
    ("url", "allowed", "problem"),
    [
        ("http://10.1.2.3/", "", "is an address to which no messages may be sent"),
        ("http://8.8.8.8/", "10.0.0.0/8", "must begin with https://"),
        ("http://169.254.169.254/", "169.254.0.0/16", "is an address to which no messages may be sent"),
        ("localhost:4242", "", "must begin with https://, not with localhost:"),
        ("http://10.1.2.3/", "10.0.0.0/8, fd12::/48", None),
        ("https://8.8.8.8/", "", None),
    ],
)
async def test_what_leaves_the_machine_goes_by_tls_or_to_a_network_of_the_setting(url, allowed, problem):
    forwarder = Forwarder(url, read_settings({"LEDGER_WEBHOOK_ALLOW": allowed}))
    if problem is None:
        async with forwarder:
            return
    with pytest.raises(CannotRun, match="--forward-to ") as refusal:
        async with forwarder:
            pass
    assert problem in str(refusal.value)
