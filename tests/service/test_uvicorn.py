"""What the guard of connections and the server rely on in uvicorn, whose protocol class is no published interface.

A new release of uvicorn may come in (pyproject.toml, requirements.in) once these tests pass with it.
"""

import asyncio
import inspect
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ledger.service.http.http_messages import Signal, new_cycle

pytestmark = pytest.mark.anyio

METHODS = [  # what is overridden or called, with the names of its parameters
    (HttpToolsProtocol, "__init__", ["config", "server_state", "app_state", "_loop"]),
    (HttpToolsProtocol, "connection_made", ["transport"]),
    (HttpToolsProtocol, "connection_lost", ["exc"]),
    (HttpToolsProtocol, "data_received", ["data"]),
    (HttpToolsProtocol, "eof_received", []),
    (HttpToolsProtocol, "on_message_begin", []),
    (HttpToolsProtocol, "on_header", ["name", "value"]),
    (HttpToolsProtocol, "on_headers_complete", []),
    (HttpToolsProtocol, "on_body", ["body"]),
    (HttpToolsProtocol, "on_message_complete", []),
    (HttpToolsProtocol, "on_response_complete", []),
    (HttpToolsProtocol, "shutdown", []),
    (HttpToolsProtocol, "_start_asgi_task", ["cycle", "app"]),
    (
        RequestResponseCycle,
        "__init__",
        [
            *("scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers"),
            *("message_event", "expect_100_continue", "keep_alive", "on_response"),
        ],
    ),
    (FlowControl, "__init__", ["transport"]),
    (FlowControl, "pause_reading", []),
    (FlowControl, "resume_reading", []),
    (uvicorn.Server, "serve", ["sockets"]),
    (uvicorn.Server, "startup", ["sockets"]),
    (uvicorn.Server, "shutdown", ["sockets"]),
]
PROTOCOL = (
    "parser",
    "transport",
    "flow",
    "server_state",
    "cycle",
    "scope",
    "url",
    "headers",
    "pipeline",
    "expect_100_continue",
    "app",
    "logger",
    "access_logger",
    "access_log",
)
CYCLE = (
    "scope",
    "keep_alive",
    "disconnected",
    "message_event",
    "on_response",
    "response_started",
    "response_complete",
    "waiting_for_100_continue",
    "default_headers",
    "body",
)
SERVER_STATE = ("connections", "tasks", "total_requests", "default_headers")


@pytest.fixture
async def protocol():
    ended = asyncio.Event()

    async def app(_scope, _receive, _send):
        await ended.wait()

    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    protocol = HttpToolsProtocol(config=server.config, server_state=server.server_state, app_state={})
    protocol.connection_made(Mock(asyncio.Transport, get_extra_info=lambda _name, default=None: default))
    protocol.data_received(b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n")
    yield protocol
    ended.set()


@pytest.mark.parametrize(("kind", "method", "parameters"), METHODS)
def test_a_method_takes_what_it_did(kind, method, parameters):
    assert hasattr(kind, method), f"uvicorn's {kind.__name__} has no {method}() any more"
    assert list(inspect.signature(getattr(kind, method)).parameters)[1:] == parameters


def lacking(thing, names):
    return [f"uvicorn's {type(thing).__name__} has no {name} any more" for name in names if not hasattr(thing, name)]


async def test_connections_requests_and_the_server_have_the_attributes_that_they_had(protocol):
    assert lacking(protocol, PROTOCOL) == []
    assert lacking(protocol.cycle, CYCLE) == []
    assert lacking(protocol.flow, ["read_paused"]) == []
    assert lacking(protocol.server_state, SERVER_STATE) == []
    assert lacking(uvicorn.Server(protocol.config), ["started", "should_exit", "server_state", "config"]) == []
    source = inspect.getsource(uvicorn.Server)
    assert "self.servers" in source, "uvicorn.Server keeps what listens elsewhere"
    assert "self.lifespan.state" in source, "uvicorn.Server keeps the application's state elsewhere"


async def test_a_request_that_was_sent_ahead_waits_in_the_pipeline_and_the_last_one_is_the_cycle(protocol):
    ((cycle, app),) = protocol.pipeline
    assert isinstance(cycle, RequestResponseCycle)
    assert cycle is protocol.cycle, "the cycle is the request that came last"
    assert cycle.scope is protocol.scope, "a cycle has the scope of its request"
    assert cycle.scope["path"] == "/2"
    assert app is protocol.app
    assert protocol.flow.read_paused, "nothing is read while a request waits in the pipeline"
    assert len(protocol.server_state.tasks) == 1, "the first request is being answered"


@pytest.mark.parametrize(
    "address",
    [
        *("/", "/a/b?c=d&e", "/a%2Fb?c%20d", "/?", "/a?b?c", "//a/b?c", "/a#b", "/a?b#c?d", "/a:b@c//d;e?/f:g@h"),
        *("http://x/a/b?c", "http://x:80?c", "http://user@x/a", "*", "x", "/%e1%88%b4", "/~'()[]{}|^`\\\""),
    ],
)
async def test_a_request_has_the_scope_that_uvicorn_makes(protocol, address):
    def scope_of(begin):
        protocol.on_message_begin()
        protocol.on_url(address.encode())
        protocol.on_header(b"Host", b"x")
        try:
            begin()
        except Exception as error:  # noqa: BLE001 - the parser answers each with 400
            return type(error)
        return protocol.scope

    assert scope_of(lambda: new_cycle(protocol)) == scope_of(protocol.on_headers_complete)


async def test_a_signal_wakes_the_task_that_waits_for_it():
    signal = Signal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    signal.set()
    signal.set()
    await asyncio.wait_for(waiting, 60)
    await signal.wait()
    signal.clear()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    signal.set()
    await signal.wait()


def test_uvicorn_shuts_its_connections_down_when_it_ends():
    source = inspect.getsource(uvicorn.Server.shutdown)
    assert "connection.shutdown()" in source, "uvicorn no longer calls shutdown() of each connection"
