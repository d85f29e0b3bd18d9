"""The work of the process of an audit, one line on its standard input, and its messages to the worker, a line each on
its standard output.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from ledger.settings import Settings


class AuditWork(Struct, frozen=True, kw_only=True):
    """What a process audits. `folder` is for its temporary files."""

    settings: Settings
    merchant_id: UUID
    folder: Path


class Progressed(Struct, frozen=True, tag="progressed"):
    """How many events are read, of how many."""

    events: int
    events_total: int


class Reported(Struct, frozen=True, tag="reported"):
    """The end of an audit: its report as JSON, with how many events it has read and violations it has found."""

    report: Raw
    events: int
    violations: int


class Reason(StrEnum):
    """Why a process ended without a report, for the merchant. The log has what is for the operator."""

    ENDED = "its process was ended, as by a lack of memory"
    DATABASE = "the database could not be read to the end"
    CHECKPOINTS = "the checkpoints outside the database could not be read"
    ARCHIVE = "the files of archived events could not be read"
    FILES = "its temporary files could not be written"
    ERROR = "its program has an error"


class Failed(Struct, frozen=True, tag="failed"):
    """The end of a process without a report. `detail` is for the operator, and has nothing of the data."""

    reason: Reason
    detail: str


Ending = Reported | Failed
Message = Progressed | Ending

_decode: Final = msgspec.json.Decoder(Message).decode


def encode_work(work: AuditWork) -> bytes:
    """Returns the line that a process reads."""
    return msgspec.json.encode(work, enc_hook=str) + b"\n"


def decode_work(line: bytes) -> AuditWork:
    """Returns the work in a line of a worker."""
    return msgspec.json.decode(line, type=AuditWork, dec_hook=lambda kind, value: kind(value))


def encode_message(message: Message) -> bytes:
    """Returns the line that a worker reads."""
    return msgspec.json.encode(message) + b"\n"


def decode_message(line: bytes) -> Message:
    """Returns the message in a line of a process."""
    message: Message = _decode(line)
    return message
