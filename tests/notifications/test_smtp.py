"""Messages handed to a real SMTP server: accepted, refused, put off, and unanswered."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from tests.notifications.conftest import NOTIFICATION, PASSWORD, RECIPIENT, SENDER, USER, Server, Start

from ledger.notifications.contract import (
    Attachment,
    NotificationFailed,
    NotificationRefused,
    NotificationUnanswered,
    NotifierUnavailable,
)
from ledger.notifications.smtp import MailServer, SmtpNotifier, parse_server

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
SIGN_IN = f"{USER}:{quote(PASSWORD, safe='')}@"


def notifier(
    server: Server, scheme: str = "smtp", query: str = "?tls=none", user: str = "", **options: Any
) -> SmtpNotifier:
    url = f"{scheme}://{user}localhost:{server.port}{query}"
    return SmtpNotifier(parse_server(url), SENDER, **({"timeout_s": PATIENCE_S} | options))


async def failure(sending: SmtpNotifier, within_s: float = PATIENCE_S) -> NotificationFailed:
    """Returns how the attempt failed, after a look at what it reveals."""
    with pytest.raises(NotificationFailed) as failed:
        await sending.send(NOTIFICATION, within_s)
    shown = "".join(traceback.format_exception(failed.value))
    assert not any(secret in shown for secret in (PASSWORD, quote(PASSWORD, safe=""), RECIPIENT)), shown
    return failed.value


async def test_a_mail_has_both_forms_and_an_id_that_is_derived(start: Start) -> None:
    server = await start()
    for _ in range(2):
        await notifier(server).send(NOTIFICATION, PATIENCE_S)
    mail, again = server.mails
    assert mail["From"] == "Café Bruma <payments@shop.example>"
    assert (mail["To"], mail["Subject"]) == (RECIPIENT, "Recordatorio: café")
    assert mail["Message-ID"] == again["Message-ID"] == f"<{NOTIFICATION.notification_id}@shop.example>"
    assert (mail["Auto-Submitted"], mail["Content-Language"]) == ("auto-generated", "es")
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().replace("\r\n", "\n") == NOTIFICATION.message.text
    assert html.get_content().strip() == NOTIFICATION.message.html


async def test_files_are_attached_as_they_are(start: Start) -> None:
    server = await start()
    files = (
        Attachment(name="a.xml", media_type="application/xml", content="<a>ñ</a>\r\n".encode()),
        Attachment(name="a.pdf", media_type="application/pdf", content=bytes(range(256)) * 40),
    )
    await notifier(server).send(replace(NOTIFICATION, attachments=files), PATIENCE_S)
    (mail,) = server.mails
    attached = list(mail.iter_attachments())
    assert [(each.get_filename(), each.get_content_type()) for each in attached] == [
        (each.name, each.media_type) for each in files
    ]
    assert [each.get_content() for each in attached] == [each.content for each in files]
    text = mail.get_body(("plain",))
    assert text is not None
    assert text.get_content().replace("\r\n", "\n") == NOTIFICATION.message.text


@pytest.mark.parametrize(("tls", "scheme", "query"), [("implicit", "smtps", ""), ("starttls", "smtp", "")])
async def test_a_mail_is_sent_over_tls_with_a_sign_in(
    tls: str, scheme: str, query: str, start: Start, trusting: ssl.SSLContext
) -> None:
    server = await start(tls, signs_in=True)
    await notifier(server, scheme, query, SIGN_IN, tls_context=trusting).send(NOTIFICATION, PATIENCE_S)
    assert len(server.mails) == 1
    wrong = notifier(server, scheme, query, f"{USER}:wrong@", tls_context=trusting)
    assert (type(await failure(wrong)), (await failure(wrong)).code) == (NotifierUnavailable, "RESTING")
    unknown = notifier(server, scheme, query, SIGN_IN)  # without trust in the certificate
    assert (await failure(unknown)).code == "CONNECT TLS"
    assert len(server.mails) == 1


async def test_a_wrong_password_is_named_without_it(start: Start) -> None:
    server = await start(signs_in=True)
    failed = await failure(notifier(server, user=f"{USER}:wrong@"))
    assert (type(failed), failed.code) == (NotifierUnavailable, "AUTH 535 5.7.8")


async def test_without_starttls_at_the_server_nothing_is_sent(start: Start) -> None:
    server = await start()
    failed = await failure(notifier(server, query=""))
    assert (type(failed), failed.code) == (NotifierUnavailable, "CONNECT FAILED")
    assert server.mails == []


@pytest.mark.parametrize(
    ("step", "reply", "kind", "code"),
    [
        ("MAIL", "553 5.7.1 not you ana@example.com", NotifierUnavailable, "MAIL 553 5.7.1"),
        ("MAIL", "451 later", NotifierUnavailable, "MAIL 451"),
        ("RCPT", "550 5.1.1 ana@example.com is unknown", NotificationRefused, "RCPT 550 5.1.1"),
        ("RCPT", "450 4.2.0 greylisted", NotifierUnavailable, "RCPT 450 4.2.0"),
        ("DATA", "554 5.7.0 spam for ana@example.com", NotificationRefused, "DATA 554 5.7.0"),
        ("DATA", "452 4.3.1 full", NotifierUnavailable, "DATA 452 4.3.1"),
    ],
)
async def test_a_reply_decides_whether_another_attempt_is_made(
    step: str, reply: str, kind: type, code: str, start: Start
) -> None:
    server = await start()
    server.replies[step] = reply
    failed = await failure(notifier(server))
    assert (type(failed), failed.code) == (kind, code)
    server.replies.clear()
    await notifier(server).send(NOTIFICATION, PATIENCE_S)
    assert len(server.mails) == 1


@pytest.mark.parametrize(
    ("step", "kind", "code"),
    [
        ("CONNECT", NotifierUnavailable, "CONNECT TIMEOUT"),
        ("MAIL", NotifierUnavailable, "MAIL TIMEOUT"),
        ("RCPT", NotifierUnavailable, "RCPT TIMEOUT"),
        ("DATA", NotificationUnanswered, "DATA TIMEOUT"),
    ],
)
async def test_silence_is_unknown_only_after_the_mail_was_handed_over(
    step: str, kind: type, code: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start("mute" if step == "CONNECT" else "none")
    server.silent.add(step)
    reached = asyncio.Event()
    waiting = server.go_on.wait

    async def wait() -> bool:
        reached.set()
        return await waiting()

    monkeypatch.setattr(server.go_on, "wait", wait)
    timed_out = asyncio.timeout

    def until_reached(seconds: float | None) -> Any:
        """The time-out of the attempt, which begins to run out when the server is silent."""
        assert seconds == PATIENCE_S
        return _Ends(timed_out(None), reached if step != "CONNECT" else _connected(server))

    monkeypatch.setattr("ledger.notifications.smtp.asyncio.timeout", until_reached)
    failed = await failure(notifier(server))
    assert (type(failed), failed.code) == (kind, code)
    assert server.mails == []


class _Ends:
    """A time-out that expires once an event is set."""

    def __init__(self, timeout: asyncio.Timeout, event: asyncio.Event) -> None:
        self._timeout, self._event = timeout, event

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._task = asyncio.create_task(self._expire())

    async def _expire(self) -> None:
        await self._event.wait()
        self._timeout.reschedule(0.0)

    async def __aexit__(self, *error: object) -> bool | None:
        self._task.cancel()
        return await self._timeout.__aexit__(*error)


def _connected(server: Server) -> Any:
    class Connected:
        async def wait(self) -> None:
            while not server.connections:  # noqa: ASYNC110 - the server's count has no event
                await asyncio.sleep(0.01)

    return Connected()


@pytest.mark.parametrize(("step", "kind"), [("RCPT", NotifierUnavailable), ("DATA", NotificationUnanswered)])
async def test_a_connection_that_breaks_is_unknown_only_after_the_mail_was_handed_over(
    step: str, kind: type, start: Start
) -> None:
    server = await start()
    server.closes.add(step)
    assert type(await failure(notifier(server))) is kind


async def test_after_a_failed_connection_no_other_is_tried_for_a_while(start: Start) -> None:
    server = await start("implicit")  # which does not begin as a plain connection does
    server.closes.add("MAIL")
    sending = notifier(server, rest_s=3600.0)
    sending._server = replace(sending._server, port=1)
    assert (await failure(sending)).code == "CONNECT FAILED"
    sending._server = replace(sending._server, port=server.port)
    assert (await failure(sending)).code == "RESTING"
    assert server.connections == 0
    sending._resting_until = 0.0
    sending._server = replace(sending._server, port=(other := await start()).port)
    await sending.send(NOTIFICATION, PATIENCE_S)
    assert len(other.mails) == 1


async def test_few_connections_are_open_at_once(start: Start) -> None:
    server = await start()
    sending = notifier(server)
    await asyncio.gather(*[sending.send(NOTIFICATION, PATIENCE_S) for _ in range(30)])
    assert len(server.mails) == server.connections == 30
    assert server.open_max <= 9  # the server sees the end of a connection a little later


async def test_no_value_adds_a_header_or_a_recipient(start: Start) -> None:
    server = await start()
    hostile = replace(NOTIFICATION, sender_name='Café\r\nBcc: eve@example.com\r\n"<x@y>')
    await notifier(server).send(hostile, PATIENCE_S)
    assert server.mails[0]["Bcc"] is None
    assert "eve@example.com" in server.mails[0]["From"]  # as a part of the name
    for address in (
        "ana@example.com\r\nRCPT TO:<eve@example.com>",
        "ana",
        "",
        "@example.com",
        "a b@example.com",
        "ñ@example.com",
    ):
        with pytest.raises(NotificationRefused) as refused:
            await notifier(server).send(replace(NOTIFICATION, recipient=address), PATIENCE_S)
        assert refused.value.code == "ADDRESS"
    await notifier(server).send(replace(NOTIFICATION, recipient="ana@ejemplo-ñ.mx"), PATIENCE_S)
    assert server.mails[-1]["To"] == "ana@xn--ejemplo--k3a.mx"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtps://u:p%40%2F@mail.example.com", MailServer(host="mail.example.com", port=465, tls="implicit", user="u", password="p@/")),
        ("smtp://mail.example.com", MailServer(host="mail.example.com", port=587, tls="starttls")),
        ("smtp://mail.example.com:2525/?tls=starttls", MailServer(host="mail.example.com", port=2525, tls="starttls")),
        ("smtp://127.0.0.1?tls=none", MailServer(host="127.0.0.1", port=25, tls="none")),
    ],
)  # fmt: skip
def test_an_address_names_the_kind_of_tls(url: str, expected: MailServer) -> None:
    assert parse_server(url) == expected
    assert "p@/" not in repr(parse_server(url))
