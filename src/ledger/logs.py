"""Logs: one JSON object per line on standard error, whoever wrote it.

The rule a stranger would break: a log line names ids and codes, never a request's values. What a customer typed may be a
card number.
"""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(level: str) -> None:
    """Send structlog and the standard library's loggers the same way, from `level` on ("info", "warning", …)."""
    severity = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(severity),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=max(severity, logging.WARNING), handlers=[handler], force=True)
