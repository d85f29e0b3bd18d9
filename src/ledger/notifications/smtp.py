"""Hands messages to a mail server by SMTP (RFC 5321): over TLS, after STARTTLS, or, on request, in the clear.

Never put an address, a password or a server's own text into an error or a log: a server repeats addresses in its
answers. The Message-ID is derived from the notification's id, so that a mail that is handed over twice can be
recognised as one.
"""

from __future__ import annotations

import asyncio
import re
import time
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as MAIL_POLICY
from email.utils import formatdate
from ssl import SSLContext, SSLError
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import aiosmtplib
from aiosmtplib import (
    SMTPAuthenticationError,
    SMTPException,
    SMTPResponseException,
    SMTPTimeoutError,
)
from msgspec import Struct

from ledger.notifications.contract import (
    Notification,
    NotificationRefused,
    NotificationUnanswered,
    NotifierUnavailable,
)
from ledger.notifications.formats import one_line

_CONNECTIONS_MAX: Final = 8
_REST_S: Final = 10.0
"""How long no connection is tried after one failed: thousands of messages would each wait for the time-out."""
_NEGATIVE_FROM, _REFUSED_FROM = 400, 500
"""Replies from 400 on are negative, from 500 on for good (RFC 5321, 4.2.1)."""
_ENHANCED: Final = re.compile(r"[245]\.\d{1,3}\.\d{1,3}\b")


class MailServer(Struct, frozen=True, kw_only=True):
    """A mail server. `tls` is `implicit` from the first byte on, `starttls`, or `none`."""

    host: str
    port: int
    tls: str
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"MailServer({self.tls})"


def parse_server(url: str) -> MailServer:
    """Returns the server of `smtps://user:password@host:465`, `smtp://…:587` (STARTTLS) or `smtp://…:25?tls=none`.

    User and password are percent-encoded. The settings have checked the form.
    """
    parts = urlsplit(url)
    tls = "implicit" if parts.scheme == "smtps" else parse_qs(parts.query).get("tls", ["starttls"])[0]
    return MailServer(
        host=parts.hostname or "",
        port=parts.port or {"implicit": 465, "starttls": 587}.get(tls, 25),
        tls=tls,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


class SmtpNotifier:
    """Sends messages from one address, as the merchant by name, over a connection for each message.

    `timeout_s` bounds a whole attempt: waiting for a free connection, connecting, signing in, and handing over.
    `tls_context` replaces the system's certificates.
    """

    name = "smtp"

    def __init__(
        self,
        server: MailServer,
        sender: str,
        *,
        timeout_s: float = 10.0,
        rest_s: float = _REST_S,
        tls_context: SSLContext | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        self._server = server
        self._sender = sender
        self._domain = sender.rpartition("@")[2]
        self._tls_context = tls_context
        self._connections = asyncio.Semaphore(_CONNECTIONS_MAX)
        self._rest_s = rest_s
        self._resting_until = 0.0

    async def send(self, notification: Notification, within_s: float) -> None:
        """Hands a message to the server. Raises the exceptions of the contract.

        After a failed connection, further attempts fail at once for some seconds.
        """
        recipient = _ascii_address(notification.recipient)
        mail = self._mail(notification, recipient)
        attempt = _Attempt(self._server, self._domain, self._tls_context, within_s)
        try:
            async with asyncio.timeout(within_s), self._connections:
                if time.monotonic() < self._resting_until:
                    raise NotifierUnavailable("RESTING")
                await attempt.run(self._sender, recipient, mail)
        except (SMTPException, OSError, ValueError) as failure:  # the time-out of the attempt included
            if attempt.step != "DONE":
                # The cause is left out: a server's text may repeat an address.
                raise self._classified(attempt, failure) from None
        finally:
            attempt.close()

    def _classified(self, attempt: _Attempt, failure: Exception) -> Exception:
        step, code = attempt.step, _code(attempt.step, failure)
        reply = failure.code if isinstance(failure, SMTPResponseException) else 0
        if step == "DATA" and reply < _NEGATIVE_FROM:
            return NotificationUnanswered(code)
        if step in {"RCPT", "DATA"} and reply >= _REFUSED_FROM:
            return NotificationRefused(code)
        if step == "CONNECT":
            self._resting_until = time.monotonic() + self._rest_s
        return NotifierUnavailable(code)

    def _mail(self, notification: Notification, recipient: str) -> bytes:
        message = notification.message
        mail = EmailMessage(policy=MAIL_POLICY)
        mail["From"] = Address(one_line(notification.sender_name), addr_spec=self._sender)
        mail["To"] = Address(addr_spec=recipient)
        mail["Subject"] = message.subject
        mail["Message-ID"] = f"<{notification.notification_id}@{self._domain}>"
        mail["Date"] = formatdate()
        mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no program answers it
        mail.set_content(message.text, cte="quoted-printable")
        mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
        mail["Content-Language"] = message.language
        for file in notification.attachments:
            main, _, minor = file.media_type.partition("/")
            mail.add_attachment(file.content, maintype=main, subtype=minor, filename=file.name)
        return mail.as_bytes()


class _Attempt:
    """One connection and the step that it has reached: WAIT, CONNECT, MAIL, RCPT, DATA or DONE."""

    def __init__(self, server: MailServer, domain: str, tls_context: SSLContext | None, timeout_s: float) -> None:
        self.step = "WAIT"
        self._client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.user,
            password=server.password,
            local_hostname=domain,
            timeout=timeout_s,
            use_tls=server.tls == "implicit",
            start_tls=server.tls == "starttls",
            tls_context=tls_context,
        )

    async def run(self, sender: str, recipient: str, mail: bytes) -> None:
        """Hands the mail over. Raises SMTPException, OSError, TimeoutError."""
        self.step = "CONNECT"
        await self._client.connect()
        self.step = "MAIL"
        await self._client.mail(sender)
        self.step = "RCPT"
        await self._client.rcpt(recipient)
        self.step = "DATA"
        await self._client.data(mail)
        self.step = "DONE"
        await self._client.quit()

    def close(self) -> None:
        """Ends the connection, also in the middle of an attempt."""
        self._client.close()


def _code(step: str, failure: Exception) -> str:
    """Returns the step and the reply code of a failure, with the enhanced status code (RFC 3463) if there is one."""
    if isinstance(failure, SMTPResponseException):
        enhanced = _ENHANCED.match(failure.message)
        kind = "AUTH" if isinstance(failure, SMTPAuthenticationError) else step
        return f"{kind} {failure.code}" + (f" {enhanced[0]}" if enhanced else "")
    if isinstance(failure, TimeoutError | SMTPTimeoutError):
        return f"{step} TIMEOUT"
    if isinstance(failure, SSLError) or isinstance(failure.__cause__, SSLError):
        return f"{step} TLS"
    return f"{step} FAILED"


def _ascii_address(address: str) -> str:
    """Returns an address in ASCII, its domain by IDNA. Raises NotificationRefused if it is none of this kind."""
    local, at, domain = address.rpartition("@")
    try:
        encoded = domain if domain.isascii() else domain.encode("idna").decode()
        written = f"{local}@{encoded}"
        written.encode("ascii")
        Address(addr_spec=written)
    except (MessageError, ValueError, IndexError):
        raise NotificationRefused("ADDRESS") from None
    if not at or not local or any(each in written for each in "\r\n <>"):
        raise NotificationRefused("ADDRESS")
    return written
