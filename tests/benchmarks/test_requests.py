"""The load generator counts what really came back."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from benchmarks.load.processes import ChildFailed, run_one
from benchmarks.load.requests import UNIQUE, LoadPlan, Step


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies[body] += 1
        status = 201 if len(self.server.bodies) % 10 else 503
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) * 100))
        self.end_headers()
        self.wfile.write(body * 100)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.bodies = Counter()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def plan(server: ThreadingHTTPServer, **given: object) -> LoadPlan:
    terms = {
        "host": "127.0.0.1",
        "port": server.server_address[1],
        "connections": 4,
        "seconds": 0.3,
        "steps": [Step(path="/orders", body='{"externalId":"a-' + UNIQUE + '","note":"100 %"}', expect=201)],
        "warm_up_s": 0.0,
    }
    return LoadPlan(**(terms | given))


def test_every_request_is_unique_and_every_unexpected_status_is_counted(server):
    sample = run_one("benchmarks.load.requests", plan(server, first=7 << 32))
    assert set(server.bodies.values()) == {1}
    assert b'{"externalId":"a-gggggggngggggggg","note":"100 %"}' in server.bodies
    assert set(sample.others) == {"503"}
    answered = sample.done + sample.others["503"]
    assert sum(server.bodies.values()) - 4 <= answered <= sum(server.bodies.values())
    assert 0 < sample.p50_ms <= sample.p99_ms < 300


def test_without_a_server_there_is_no_result(server):
    with pytest.raises(ChildFailed):
        run_one("benchmarks.load.requests", plan(server, port=1))
