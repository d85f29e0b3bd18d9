"""Receivers of webhooks on the loopback, and a client that may reach them or may not."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ledger.webhooks.addresses import Destinations
from ledger.webhooks.attempts import Attempt
from ledger.webhooks.client import WebhookClient
from ledger.webhooks.signing import new_secret

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """A server that does with each connection what a test says. `connections` counts them; `requests` has heads."""

    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave
        self.connections = 0
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.server: asyncio.Server | None = None

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError):
            await self._behave(reader, writer)
        writer.close()

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Reads one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[1:-1]
        headers = dict(line.split(": ", 1) for line in head)
        body = await reader.readexactly(int(headers["Content-Length"]))
        self.requests.append((headers, body))

    @property
    def port(self) -> int:
        assert self.server is not None
        return self.server.sockets[0].getsockname()[1]


def certificate(path: Path, host: str) -> ssl.SSLContext:
    """Writes a self-signed certificate of a host, and returns the context of a server that has it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


Start = Callable[..., Awaitable[Receiver]]


@pytest.fixture
async def receive() -> AsyncIterator[Start]:
    """Starts receivers, by default one that answers 204 to each request."""
    async with AsyncExitStack() as stack:

        async def start(answer: bytes | Behaviour = b"HTTP/1.1 204 OK\r\n\r\n", **options: object) -> Receiver:
            async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                while True:
                    await receiver.read(reader)
                    writer.write(answer)
                    await writer.drain()
                    if b"close" in answer or b"HTTP" not in answer:
                        return

            receiver = Receiver(reply if isinstance(answer, bytes) else answer)
            receiver.server = await asyncio.start_server(receiver.accept, "127.0.0.1", 0, **options)
            await stack.enter_async_context(receiver.server)
            return receiver

        yield start


@pytest.fixture
async def local() -> AsyncIterator[WebhookClient]:
    client = WebhookClient(Destinations(is_local=True))
    yield client
    await client.close()


Post = Callable[..., Awaitable[Attempt]]


@pytest.fixture(params=["http", "https"])
async def reach(
    request: pytest.FixtureRequest, receive: Start, tmp_path: Path
) -> AsyncIterator[Callable[[Behaviour], Awaitable[tuple[Receiver, Post]]]]:
    """Starts receivers, in the clear or over TLS, each with a function that posts a body to it."""
    options, tls = {}, None
    if request.param == "https":
        options["ssl"] = certificate(tmp_path / "shop.pem", "shop.test")
        tls = ssl.create_default_context(cafile=tmp_path / "shop.pem")
    client = WebhookClient(
        Destinations(is_local=True), look_up=lambda _, *about: socket.getaddrinfo("127.0.0.1", *about), tls=tls
    )

    async def start(behave: Behaviour) -> tuple[Receiver, Post]:
        receiver = await receive(behave, **options)
        url = f"{request.param}://shop.test:{receiver.port}/"
        secrets = [new_secret()]
        return receiver, lambda body, timeout_s=15.0: client.post(url, "e-1", body, secrets, timeout_s=timeout_s)

    yield start
    await client.close()
