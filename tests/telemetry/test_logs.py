"""Log lines: JSON, with the request that they belong to, and no request waits for them."""

import ast
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from tests.service.trees import environment
from tests.sources import nodes

from ledger.telemetry.logs import LINES_MAX, AccessLog

pytestmark = pytest.mark.anyio

PROGRAM = """
import logging, structlog
from types import SimpleNamespace
from ledger.telemetry.logs import REQUEST, configure_logs
configure_logs("info", process="worker-2")
structlog.get_logger().info("before")
REQUEST.set(SimpleNamespace(request_id="req-1", order_id=None))
structlog.get_logger().warning("during", reason="because")
logging.getLogger("library").warning("also during")
structlog.get_logger().error("own", request_id="req-2")
"""


def test_every_line_carries_the_request_that_it_belongs_to():
    stderr = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment(), capture_output=True, text=True, check=True
    ).stderr
    before, during, foreign, own = [json.loads(line) for line in stderr.splitlines()]
    for line in (before, during, foreign, own):
        assert list(line)[:4] == ["timestamp", "level", "event", "process"], "every line has them in this order"
        assert line["process"] == "worker-2"
    assert "request_id" not in before
    assert (during["request_id"], during["reason"], during["level"]) == ("req-1", "because", "warning")
    assert (foreign["request_id"], foreign["logger"]) == ("req-1", "library")
    assert own["request_id"] == "req-2", "a request id of the line's own is kept"


BELOW = """
import logging
from ledger.telemetry.logs import configure_logs
configure_logs("critical")
import psycopg
logging.getLogger("psycopg").warning("query cancellation interrupted")
logging.getLogger("psycopg").critical("the level is reached")
"""


def test_a_library_that_gives_its_logger_a_level_logs_nothing_below_the_one_that_is_set():
    logged = subprocess.run(
        [sys.executable, "-c", BELOW], env=environment(), capture_output=True, text=True, check=True
    )
    assert [json.loads(line)["event"] for line in logged.stderr.splitlines()] == ["the level is reached"]


TRIED_AGAIN = """
import logging, structlog
from ledger.telemetry import logs
logs.configure_logs("info")
log, pool = structlog.get_logger(), logging.getLogger("psycopg.pool")
def fail():
    log.warning("recovery_waits", reason="DatabaseUnavailable")
    log.warning("reactions_wait", of="ledger-numbering", reason="OperationalError")
    log.warning("reactions_wait", of="ledger-listener", reason="OperationalError")
    log.warning("recovery_cannot_read", order_id="o")
    pool.warning("error connecting in %r", "pool-1")
fail(); fail()
log.warning("recovery_waits", reason="ConcurrentUpdate")
logs._AGAIN_AFTER_S = 0.0
structlog.get_config()["processors"][0]._until.clear()
fail()
"""


def test_what_is_tried_again_each_second_is_logged_once_a_minute():
    done = subprocess.run(
        [sys.executable, "-c", TRIED_AGAIN], env=environment(), capture_output=True, text=True, check=True
    )
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    round_ = [
        "recovery_waits",
        "reactions_wait",
        "reactions_wait",
        "recovery_cannot_read",
        "error connecting in 'pool-1'",
    ]
    assert events == [*round_, "recovery_cannot_read", "recovery_waits", *round_]


def test_lines_as_text_are_for_a_person(tmp_path):
    program = PROGRAM.replace('configure_logs("info", process="worker-2")', 'configure_logs("info", "text")')
    stderr = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    ).stderr
    lines = [line.partition("Z ")[2] for line in stderr.splitlines()]
    assert lines == [
        "info    before",
        "warning during reason=because request_id=req-1",
        "warning also during logger=library request_id=req-1",
        "error   own request_id=req-2",
    ]


async def test_the_line_of_a_request_as_text(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        log = AccessLog(file.fileno(), "text", "api-1")
        order_id = UUID("0197f1a0-0000-7000-8000-000000000001")
        log.note("POST", "/a/{id}", 409, 0.0123, "req-1", None, None, "INVALID_ORDER_STATE", order_id)
        log.note("GET", "/a/{id}", 500, 0.001, 'req "2"', None)
        log.flush()
    first, second = (line.partition("Z ")[2] for line in (tmp_path / "log").read_text().splitlines())
    assert first == (
        "info    request process=api-1 method=POST route=/a/{id} status=409 ms=12.3 request_id=req-1 "
        f"error_code=INVALID_ORDER_STATE order_id={order_id}"
    )
    assert second == 'error   request process=api-1 method=GET route=/a/{id} status=500 ms=1.0 request_id="req \\"2\\""'


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is a full disk")
def test_a_full_disk_under_the_log_ends_nothing():
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment(), stderr=full, check=False)
    assert ended.returncode == 0


async def test_a_reader_that_does_not_keep_up_loses_lines_and_no_request_waits():
    reading, writing = os.pipe()
    log = AccessLog(writing)
    for n in range(2000):  # a pipe holds far less: a log that waited for its reader would wait here for ever
        log.note("GET", "/a/{id}", 200, 0.001, f"req-{n}", None)
    log.flush()
    assert 0 < log.dropped < 2000
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    assert len(lines) == 2000 - log.dropped
    assert [json.loads(line)["request_id"] for line in lines] == [f"req-{n}" for n in range(len(lines))]
    await asyncio.sleep(0.25)  # its own flush finds nothing more to do


async def test_so_many_lines_wait_and_no_more():
    reading, writing = os.pipe()
    log = AccessLog(writing)
    for n in range(LINES_MAX * 3):
        log.note("GET", "/a/{id}", 200, 0.001, f"req-{n}", None)
        assert len(log._lines) <= LINES_MAX
    log.flush()
    os.close(writing)
    os.close(reading)


def test_no_line_repeats_the_text_of_a_failure():
    """It may hold what a customer typed. Three kinds of failure have texts of our own: ids of keys and customers, and
    what an operator can do about a store.
    """
    store = {"checkpoints_not_written", "checkpoints_not_compared", "checkpoints_not_thinned", "archive_unavailable"}
    ours = {"data_key_unavailable", "recovery_cannot_read", *store}
    logged = [
        (path.name, ast.unparse(call.args[0]))
        for path, call in nodes("_log.")
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("_log.")
        if any(ast.unparse(word.value).startswith(("repr(", "str(fault", "str(failure")) for word in call.keywords)
    ]
    assert {name.strip("'") for _, name in logged} == ours
