"""A local object store with the interface of S3: it checks each signature, and creates an object once.

With `LEDGER_TEST_S3` the tests use another server instead: its address, with `AWS_ACCESS_KEY_ID` and
`AWS_SECRET_ACCESS_KEY` in the environment, and a bucket `invoices`.
"""

from __future__ import annotations

import hmac
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pytest

BUCKET: Final = "invoices"
KEY_ID, SECRET = "AKIALEDGER", "the store's secret"
_SIGNED: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<scope>[^,]+), ?SignedHeaders=(?P<names>[^,]+), ?Signature=(?P<mac>\w+)"
)


_PART: Final = re.compile(r"bytes=(\d+)-(\d+)")


class S3Server:
    """The objects by bucket and key, and what the next requests meet: a status, or None for a lost answer.

    Requests wait while `answers` is not set.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.buckets: dict[str, dict[str, bytes]] = {BUCKET: {}}
        self.disturbances: list[int | None] = []
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.answers = threading.Event()
        self.answers.set()

    def answer(self, request: Any, body: bytes) -> tuple[int, str, bytes]:
        """Returns the status, the error's code and the content."""
        refused = _refusal(request, body)
        if refused:
            return 403, refused, b""
        _, bucket, *rest = unquote(urlsplit(request.path).path).split("/", 2)
        if bucket not in self.buckets:
            return 404, "NoSuchBucket", b""
        objects, key = self.buckets[bucket], "".join(rest)
        if request.command == "GET":
            if not key:
                return 200, "", _listed(objects, dict(parse_qsl(urlsplit(request.path).query)).get("prefix", ""))
            if key not in objects:
                return 404, "NoSuchKey", b""
            part = _PART.fullmatch(request.headers.get("Range", ""))
            if part is None:
                return 200, "", objects[key]
            content = objects[key][int(part[1]) : int(part[2]) + 1]
            return (206, "", content) if content else (416, "InvalidRange", b"")
        with self.lock:
            if request.headers.get("If-None-Match") == "*" and key in objects:
                return 412, "PreconditionFailed", b""
            objects[key] = body
        return 200, "", b""

    def object_at(self, path: str) -> bytes:
        """Returns the object that a request names."""
        _, bucket, key = unquote(urlsplit(path).path).split("/", 2)
        return self.buckets[bucket][key]


def _listed(objects: Iterable[str], prefix: str) -> bytes:
    """Returns the answer to a list of the folders and the objects directly below a prefix."""
    below = sorted(key for key in objects if key.startswith(prefix))
    folders = {prefix + key[len(prefix) :].partition("/")[0] + "/" for key in below if "/" in key[len(prefix) :]}
    found = [key for key in below if "/" not in key[len(prefix) :]]
    about = "<LastModified>2026-01-31T12:00:00.000Z</LastModified><ETag>e</ETag><Size>1</Size>"
    files = "".join(f"<Contents><Key>{key}</Key>{about}</Contents>" for key in found)
    prefixes = "".join(f"<CommonPrefixes><Prefix>{each}</Prefix></CommonPrefixes>" for each in sorted(folders))
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{files}{prefixes}</ListBucketResult>".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: S3Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.store.requests.append(f"{self.command} {self.path}")
        self.store.answers.wait()
        status, code, content = self.store.answer(self, body)
        if self.store.disturbances and status == 200:
            disturbance = self.store.disturbances.pop(0)
            if disturbance is None:
                self.close_connection = True
                return
            status, code = disturbance, "SlowDown"
        if code:
            content = f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if status == 206:
            start, total = int(_PART.fullmatch(self.headers["Range"])[1]), len(self.store.object_at(self.path))  # type: ignore[index]
            self.send_header("Content-Range", f"bytes {start}-{start + len(content) - 1}/{total}")
        self.send_header("ETag", f'"{sha256(content).hexdigest()}"')
        self.send_header("Last-Modified", "Sat, 31 Jan 2026 12:00:00 GMT")
        with suppress(ConnectionError):  # a client that has waited too long is gone
            self.end_headers()
            self.wfile.write(content)

    do_PUT = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


def _refusal(request: Any, body: bytes) -> str:
    """Returns why a request's signature is refused (AWS Signature Version 4), empty where it is right."""
    signed = _SIGNED.fullmatch(request.headers.get("Authorization", ""))
    if signed is None:
        return "AccessDenied"
    if signed["id"] != KEY_ID:
        return "InvalidAccessKeyId"
    parts = urlsplit(request.path)
    query = "&".join(f"{quote(n, '-_.~')}={quote(v, '-_.~')}" for n, v in sorted(parse_qsl(parts.query, True)))
    names = signed["names"].split(";")
    digest = request.headers["x-amz-content-sha256"]
    if digest not in {sha256(body).hexdigest(), "UNSIGNED-PAYLOAD"}:
        return "XAmzContentSHA256Mismatch"
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names)
    canonical = "\n".join((request.command, parts.path, query, headers, signed["names"], digest))
    text = "\n".join(
        ("AWS4-HMAC-SHA256", request.headers["x-amz-date"], signed["scope"], sha256(canonical.encode()).hexdigest())
    )
    key = f"AWS4{SECRET}".encode()
    for part in signed["scope"].split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.new(key, text.encode(), "sha256").hexdigest()
    return "" if hmac.compare_digest(expected, signed["mac"]) else "SignatureDoesNotMatch"


@contextmanager
def running() -> Iterator[S3Server]:
    """Yields a store with an empty bucket."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        handler.store = S3Server(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield handler.store  # type: ignore[attr-defined]
        handler.store.answers.set()  # type: ignore[attr-defined]
        server.shutdown()
        serving.join()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A store whose address and credentials are in the environment, as an operator sets them."""
    for name in [name for name in os.environ if name.startswith("AWS_") and "LEDGER_TEST_S3" not in os.environ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    if "LEDGER_TEST_S3" in os.environ:
        monkeypatch.setenv("AWS_ENDPOINT_URL", os.environ["LEDGER_TEST_S3"])
        yield S3Server(os.environ["LEDGER_TEST_S3"])
        return
    with running() as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield store


def main() -> None:
    """Serves an empty bucket as a process of its own, which a test can stop."""
    with running() as store:
        sys.stdout.write(f"ready {store.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
