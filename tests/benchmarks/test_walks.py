"""A walk of the load generator counts when each of its answers is as expected."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from benchmarks.load.processes import ChildFailed, run_one
from benchmarks.load.requests import FORM, ORDER, OUT_OF_ORDERS, UNIQUE, LoadPlan, Step


class Shop(BaseHTTPRequestHandler):
    """Makes an order, shows its page at another address, and accepts what the page sends."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked[self.path, self.headers["Content-Type"]] += 1
        time.sleep(self.server.takes_s)
        status, answer = self.server.answers[self.path.rpartition("/")[2]]
        if status == 0:
            self.close_connection = True
            return
        body = answer if isinstance(answer, str) else json.dumps(answer | {"sent": sent})
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def shop():
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        server.asked = Counter()
        server.takes_s = 0.0
        server.answers = {
            "orders": (
                201,
                {"id": "order-1", "status": "WAITS", "next": {"page": "http://another.example:1/pages/ask"}},
            ),
            "ask": (200, "<h1>¿Pagas?</h1>"),
            "validate": (200, {"status": "DONE"}),
        }
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


STEPS = [
    Step(
        name="create",
        path="/orders",
        body=f'{{"externalId":"a-{UNIQUE}"}}',
        expect=201,
        values={"status": "WAITS"},
        saves={ORDER: "id", "{page}": "next.page"},
    ),
    Step(name="ask", path="{page}", body="decision=accept", content_type=FORM, text="¿Pagas?"),
    Step(name="validate", path=f"/orders/{ORDER}/validate", body=f'{{"order":"{ORDER}"}}', values={"status": "DONE"}),
]


def plan(server: ThreadingHTTPServer, **given: Any) -> LoadPlan:
    terms = {
        "host": "127.0.0.1",
        "port": server.server_address[1],
        "connections": 3,
        "seconds": 0.3,
        "steps": STEPS,
        "warm_up_s": 0.0,
    }
    return LoadPlan(**(terms | given))


def test_a_walk_uses_values_of_earlier_answers(shop):
    sample = run_one("benchmarks.load.requests", plan(shop))
    assert not sample.others
    assert set(shop.asked) == {
        ("/orders", "application/json"),
        ("/pages/ask", FORM),
        ("/orders/order-1/validate", "application/json"),
    }
    times = shop.asked["/orders/order-1/validate", "application/json"]
    assert times - 3 <= sample.done <= sample.ended == times
    assert sample.done > 3
    assert 0 < sample.p50_ms <= sample.p99_ms < 300


@pytest.mark.parametrize(
    ("step", "answer", "error", "never_asked"),
    [
        ("orders", (503, {"code": "UNAVAILABLE"}), "create 503 UNAVAILABLE", "/pages/ask"),
        ("orders", (201, {"id": "order-1", "status": "FAILED"}), "create 201 FAILED", "/pages/ask"),
        ("ask", (200, "<h1>No</h1>"), "ask 200", "/orders/order-1/validate"),
        ("ask", (404, "<h1>¿Pagas?</h1>"), "ask 404 None", "/orders/order-1/validate"),
        ("validate", (200, {"status": "FAILED"}), "validate 200 FAILED", None),
        ("validate", (200, "not JSON"), "validate 200 None", None),
    ],
)
def test_a_step_with_an_unexpected_answer_is_an_error(shop, step, answer, error, never_asked):
    shop.answers[step] = answer
    sample = run_one("benchmarks.load.requests", plan(shop))
    assert (sample.done, set(sample.others)) == (0, {error})
    assert sample.others[error] > 0
    assert never_asked not in {path for path, _ in shop.asked}


def test_a_sample_that_is_shorter_than_a_walk_continues_until_walks_have_ended(shop):
    shop.takes_s = 0.1
    sample = run_one("benchmarks.load.requests", plan(shop, seconds=0.05))
    assert sample.done >= 3
    assert sample.per_second == sample.done / sample.seconds
    assert sample.seconds > 0.05


def test_a_server_that_closes_the_connection_is_an_error(shop):
    shop.answers["validate"] = (0, "")
    sample = run_one("benchmarks.load.requests", plan(shop))
    assert (sample.done, sample.others) == (0, {"closed: ConnectionResetError": 3})


def test_an_order_is_used_as_often_as_the_plan_allows(shop):
    body = f'{{"externalId":"{UNIQUE}"}}'
    only = [Step(name="part", path=f"/{ORDER}/validate", body=body, values={"status": "DONE"})]
    orders = [f"order-{n}" for n in range(7)]
    sample = run_one("benchmarks.load.requests", plan(shop, steps=only, orders=orders, uses=2, seconds=0.6))
    assert (sample.done, sample.others) == (14, {OUT_OF_ORDERS: 3})
    assert shop.asked == {(f"/order-{n}/validate", "application/json"): 2 for n in range(7)}


def test_without_a_server_there_is_no_result(shop):
    with pytest.raises(ChildFailed):
        run_one("benchmarks.load.requests", plan(shop, port=1))
