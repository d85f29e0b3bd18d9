"""A real SMTP server on the loopback, which answers as a test asks it to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ledger.notifications.contract import Message, MessageKind, Notification

USER, PASSWORD, SENDER, RECIPIENT = "ledger", "s3cret:@/ñ", "payments@shop.example", "ana@example.com"
NOTIFICATION = Notification(
    notification_id=UUID("01890a5d-ac96-774b-bcce-b302099a8091"),
    sender_name="Café Bruma",
    recipient=RECIPIENT,
    message=Message(
        kind=MessageKind.PAYMENT_REMINDER,
        language="es",
        subject="Recordatorio: café",
        text=".Hola ñ\n.\nFin\n",
        html="<p>Hola ñ</p>",
    ),
)


class Server:
    """Accepts mails into `mails`. `replies` has answers to steps, `silent` the steps that get none.

    `closes` are the steps at which the connection ends instead.
    """

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.replies: dict[str, str] = {}
        self.silent: set[str] = set()
        self.closes: set[str] = set()
        self.connections = self.open = self.open_max = 0
        self.port = 0
        self.go_on = asyncio.Event()

    async def _step(self, name: str, server: Any) -> str | None:
        if name in self.silent:
            await self.go_on.wait()
        if name in self.closes:
            server.transport.close()
        return self.replies.get(name)

    async def handle_MAIL(self, server: Any, _: Any, envelope: Any, address: str, options: list[str]) -> str:  # noqa: N802
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return await self._step("MAIL", server) or "250 OK"

    async def handle_RCPT(self, server: Any, _: Any, envelope: Any, address: str, options: list[str]) -> str:  # noqa: N802
        reply = await self._step("RCPT", server)
        if reply is None:
            envelope.rcpt_tos.append(address)
            envelope.rcpt_options.extend(options)
        return reply or "250 OK"

    async def handle_DATA(self, server: Any, _: Any, envelope: Any) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        reply = await self._step("DATA", server)
        if reply is None:
            self.mails.append(mail)
        return reply or "250 OK"


class Protocol(SMTP):
    """Counts connections."""

    def connection_made(self, transport: Any) -> None:
        server = self.event_handler
        if not isinstance(transport, asyncio.Transport) or transport.get_extra_info("sslcontext") is None:
            server.connections += 1
            server.open += 1
            server.open_max = max(server.open_max, server.open)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.event_handler.open -= 1
        super().connection_lost(error)


class Mute(asyncio.Protocol):
    """Accepts a connection, and never greets."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def connection_made(self, _: Any) -> None:
        self._server.connections += 1


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of localhost, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


Start = Callable[..., Awaitable[Server]]


@pytest.fixture
async def start(certificate: Path) -> AsyncIterator[Start]:
    """Starts servers with `tls` "implicit", "starttls", "none", or "mute", with or without a sign-in."""
    async with AsyncExitStack() as stack:

        async def started(tls: str = "none", *, signs_in: bool = False) -> Server:
            server, context = Server(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            loop = asyncio.get_running_loop()
            context.load_cert_chain(certificate)

            def authenticate(*args: Any) -> AuthResult:
                given = args[-1]
                assert isinstance(given, LoginPassword)
                known = (given.login, given.password) == (USER.encode(), PASSWORD.encode())
                return AuthResult(success=known, handled=known)

            def protocol() -> Protocol:
                return Protocol(
                    server,
                    hostname="mail.test",
                    tls_context=context if tls == "starttls" else None,
                    require_starttls=tls == "starttls",
                    authenticator=authenticate if signs_in else None,
                    auth_required=signs_in,
                    auth_require_tls=False,
                )

            listening = await loop.create_server(
                (lambda: Mute(server)) if tls == "mute" else protocol,
                "127.0.0.1",
                0,
                ssl=context if tls == "implicit" else None,
            )
            stack.callback(server.go_on.set)
            stack.callback(listening.close)
            server.port = listening.sockets[0].getsockname()[1]
            return server

        yield started


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))
