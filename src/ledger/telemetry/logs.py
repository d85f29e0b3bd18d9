"""Logs: one JSON object per line on standard error, for our own loggers and for those of libraries.

Log ids and codes, never a request's values: what a customer typed may be a card number.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import sys
import time
import traceback
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol, TextIO, cast
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct


class LoggedRequest(Protocol):
    """A request, which may be about an order."""

    request_id: str
    order_id: UUID | str | None


REQUEST: Final[ContextVar[LoggedRequest | None]] = ContextVar("request", default=None)
"""The request that is being answered. The middleware sets it; every line that is logged meanwhile carries its id, and
the order that it is about is noted in it. Tasks that a request starts share the object.
"""

LINES_MAX: Final = 1000
"""How many lines of requests wait to be written."""

_FLUSH_S: Final = 0.2
_LINES_AT_ONCE: Final = 10  # together less than a page, which a pipe that has room takes in one write
_TRIED_AGAIN: Final = frozenset(
    {
        "audits_wait",
        "forgetting_waits",
        "key_uses_wait",
        "log_sealing_waits",
        "messages_wait",
        "node_unavailable",
        "reactions_wait",
        "recovery_waits",
        "registration_waits",
        "tidying_waits",
        "webhook_deliveries_wait",
        "webhook_outcomes_wait",
    }
)
"""What the parts of a process log each time that they try again: together many times a second, while a database is
away.
"""
_POOL: Final = "psycopg.pool"
"""The logger of a library that does so."""
_AGAIN_AFTER_S: Final = 60.0
_LINES_KEPT: Final = 1_000

_encode_lines: Final = msgspec.json.Encoder().encode_lines


def configure_logs(level: str, log_format: str = "json", process: str | None = None) -> None:
    """Gives structlog and the standard library's loggers one output, from `level` on ("info", "warning", …).

    `log_format` is "json" or "text"; `process` is the place of this process in its service, which every line names.
    """
    render = _as_text if log_format == "text" else structlog.processors.JSONRenderer(separators=(",", ":"))
    in_order = partial(_in_order, process)
    severity = logging.getLevelNamesMapping()[level.upper()]
    repeated = _Repeated()
    shared: list[structlog.typing.Processor] = [
        _with_request_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[repeated, *shared, in_order, render],
        wrapper_class=structlog.make_filtering_bound_logger(severity),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Output(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(max(severity, logging.WARNING))  # psycopg gives its logger a level of its own
    handler.addFilter(repeated.is_news)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                in_order,
                render,
            ],
        )
    )
    logging.basicConfig(level=max(severity, logging.WARNING), handlers=[handler], force=True)


class _Repeated:
    """Leaves out lines that repeat one of the last minute."""

    def __init__(self) -> None:
        self._until: dict[tuple[object, ...], float] = {}

    def __call__(self, _logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if line["event"] in _TRIED_AGAIN and not self._is_first((*line.keys(), *map(str, line.values()))):
            raise structlog.DropEvent
        return line

    def is_news(self, record: logging.LogRecord) -> bool:
        """Returns whether a line of the standard library's loggers is written."""
        return record.name != _POOL or self._is_first((record.getMessage(),))

    def _is_first(self, line: tuple[object, ...]) -> bool:
        now = time.monotonic()
        if now < self._until.get(line, 0.0):
            return False
        if len(self._until) >= _LINES_KEPT:
            self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[line] = now + _AGAIN_AFTER_S
        return True


def _in_order(
    process: str | None, _logger: object, _method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Returns a line with the fields that all lines have first, in one order: see `Access`."""
    head = {"timestamp": line.pop("timestamp"), "level": line.pop("level"), "event": line.pop("event")}
    return {**head, **({} if process is None else {"process": process}), **line}


def _as_text(_logger: object, _method: str, line: structlog.typing.EventDict) -> str:
    """Returns the time, the level and the event of a line, and its other fields as name=value."""
    head = f"{line.pop('timestamp'):.19}Z {line.pop('level'):<7} {line.pop('event')}"
    fields = (f"{name}={_quoted(str(value))}" for name, value in line.items() if value is not None)
    return " ".join((head, *fields))


def _quoted(text: str) -> str:
    return text if text.isprintable() and not {" ", '"', "="} & set(text) else json.dumps(text, ensure_ascii=False)


class _Output:
    """A text file whose faults are dropped: on a full disk a line is lost, and the work that it reports goes on."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


def note_order(order_id: UUID) -> None:
    """Notes the order for the line of the request that is being answered; outside a request does nothing."""
    if (request := REQUEST.get()) is not None:
        request.order_id = order_id


def stack_locations(failure: BaseException) -> list[str]:
    """Returns where an exception came from, for a log line. Its text stays out: it may repeat what a customer typed."""
    frames = traceback.extract_tb(failure.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames][-8:]


def _with_request_id(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if (request := REQUEST.get()) is not None:
        line.setdefault("request_id", request.request_id)
    return line


class Access(Struct, frozen=True, omit_defaults=True):
    """The log line of a request. It has the template of the route, never a path, a query or a body.

    A line of a request that failed in the service has the level error; a refused one has its error code.
    """

    timestamp: datetime
    level: str
    event: str
    process: str
    method: str
    route: str
    status: int
    ms: float
    request_id: str
    merchant_id: UUID | None = None
    key_id: UUID | None = None
    error_code: str | None = None
    order_id: UUID | str | None = None


def _encode_as_text(lines: list[Access]) -> bytes:
    texts = [_as_text(None, "", {**msgspec.structs.asdict(line), "timestamp": str(line.timestamp)}) for line in lines]
    return "".join(f"{text}\n" for text in texts).encode()


class AccessLog:
    """Writes the lines of requests, many at a time: a system call for each line would cost more than everything else
    about it.

    `dropped` counts the lines for which the reader of the output left no room.
    """

    def __init__(self, descriptor: int = 2, log_format: str = "json", process: str = "api-0") -> None:
        self._descriptor = descriptor
        self._process = process
        self._encode = _encode_as_text if log_format == "text" else _encode_lines
        self._lines: list[Access] = []
        self.dropped = 0

    def note(
        self,
        method: str,
        route: str,
        status: int,
        seconds: float,
        request_id: str,
        merchant_id: UUID | None,
        key_id: UUID | None = None,
        error_code: str | None = None,
        order_id: UUID | str | None = None,
    ) -> None:
        """Keeps the line of a request that has just ended, and writes it within a fifth of a second."""
        if len(self._lines) >= LINES_MAX:
            self.flush()
        if not self._lines:
            asyncio.get_running_loop().call_later(_FLUSH_S, self.flush)
        ms = round(seconds * 1e3, 2)
        now = datetime.now(UTC)
        level = "error" if status >= 500 else "info"
        about = request_id, merchant_id, key_id, error_code, order_id
        self._lines.append(Access(now, level, "request", self._process, method, route, status, ms, *about))

    def flush(self) -> None:
        """Writes the lines that are kept. A reader that does not keep up loses lines; no request waits for it."""
        lines, self._lines = self._lines, []
        with suppress(OSError, ValueError):
            for first in range(0, len(lines), _LINES_AT_ONCE):
                if not select.select((), (self._descriptor,), (), 0)[1]:
                    self.dropped += len(lines) - first
                    return
                os.write(self._descriptor, self._encode(lines[first : first + _LINES_AT_ONCE]))
