"""The board of a process tree: every process hangs its figures on it once a second, and any of them can read it all.

The rule a stranger would break: a place on the board outlives the process that had it. Whoever takes the place over goes
on from the counts that hang there, so that a total never falls because a part of the service died.

The board is memory that the parent makes and its children inherit, without a file and without a name. What a process
counted in the second before it was killed is lost; nothing else is.
"""

from __future__ import annotations

import asyncio
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Union

import msgspec
from msgspec import Struct

PLACE_BYTES: Final = 1 << 20
PUBLISH_S: Final = 1.0

_WHO: Final = "process"
_HEAD: Final = struct.Struct("!II")
_TRIES: Final = 5


class MetricSample(Struct, frozen=True, array_like=True):
    """One figure: a number, or of a histogram how many values fell into each stretch, and their sum as the last entry.

    Names of what only ever grows end in `_total`; the rest, but for histograms, is as it is at this moment.
    """

    name: str
    labels: tuple[str, ...]
    value: Union[float, list[float]]  # noqa: UP007 - msgspec reads annotations at run time

    @property
    def lasts(self) -> bool:
        """Whether it counts on when the process is replaced."""
        return isinstance(self.value, list) or self.name.endswith("_total")


Source = Callable[[], Iterable[MetricSample]]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[MetricSample]).decode


_here: list[SharedMetrics] = []


def attach(descriptor: int, place: int, role: str) -> None:
    """Take the place that the parent gave to this process."""
    _here[:] = [SharedMetrics(descriptor, place, role)]


def current(role: str = "process") -> SharedMetrics:
    """The place of this process; one on a board of its own where nobody gave it any."""
    if not _here:
        attach(create_shared_metrics(), 0, role)
    return _here[0]


def create_shared_metrics() -> int:
    """A descriptor of a new board, for the children of this process."""
    if hasattr(os, "memfd_create"):  # Linux
        return os.memfd_create("ledger-board")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedMetrics:
    """A process's place on a board, and a look at all of them.

    The place is a small number that nobody else has; `role` says what the process is for. `lag_s` is how late the event
    loop was when figures were last due.
    """

    def __init__(self, descriptor: int, place: int, role: str) -> None:
        self._descriptor = descriptor
        self._place = place
        self._who = MetricSample(_WHO, (f"{role}-{place}",), os.getpid())
        self._sources: list[Source] = []
        self._before = [reading for reading in self._read(place) if reading.lasts]
        self._timer: asyncio.TimerHandle | None = None
        self.lag_s = 0.0

    @contextmanager
    def publishing(self, *sources: Source) -> Iterator[None]:
        """Hang up the figures of these sources, too, every second for as long as the block lasts, and once at its end."""
        self._sources += sources
        self._publish_again(asyncio.get_running_loop().time())
        try:
            yield
        finally:
            self.publish()
            for source in sources:
                self._sources.remove(source)

    def publish(self) -> None:
        """Hang up this process's figures as they are now."""
        readings = summed([*self._before, *(reading for source in self._sources for reading in source())])
        content = _encode([self._who, *readings])
        assert len(content) + _HEAD.size <= PLACE_BYTES, "more figures than a place has room for"
        os.pwrite(self._descriptor, _HEAD.pack(len(content), zlib.crc32(content)) + content, self._place * PLACE_BYTES)

    def read(self) -> Iterator[tuple[str, Sequence[MetricSample]]]:
        """The figures of every process, under its name."""
        for place in range(-(-os.fstat(self._descriptor).st_size // PLACE_BYTES)):
            readings = self._read(place)
            if readings:
                yield readings[0].labels[0], readings[1:]

    def _read(self, place: int) -> Sequence[MetricSample]:
        """What hangs at a place. Somebody may be hanging up new figures right now: then look again."""
        for _ in range(_TRIES):
            head = os.pread(self._descriptor, _HEAD.size, place * PLACE_BYTES)
            if len(head) < _HEAD.size:
                return ()
            size, checksum = _HEAD.unpack(head)
            figures = os.pread(self._descriptor, min(size, PLACE_BYTES), place * PLACE_BYTES + _HEAD.size)
            if zlib.crc32(figures) == checksum:
                return _decode(figures) if figures else ()
            time.sleep(0.0002)
        return ()

    def _publish_again(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._sources:
            return
        loop = asyncio.get_running_loop()
        self.lag_s = max(0.0, loop.time() - due)
        self.publish()
        due = loop.time() + PUBLISH_S
        self._timer = loop.call_at(due, self._publish_again, due)


def summed(readings: Iterable[MetricSample]) -> list[MetricSample]:
    """Figures of the same name and labels as one: added up, histograms stretch by stretch."""
    found: dict[tuple[str, tuple[str, ...]], Union[float, list[float]]] = {}  # noqa: UP007 - as above
    for reading in readings:
        key = reading.name, reading.labels
        known = found.get(key)
        if isinstance(known, list) and isinstance(reading.value, list):
            found[key] = [a + b for a, b in zip(known, reading.value, strict=True)]
        elif known is None:
            found[key] = reading.value
        else:
            assert isinstance(known, float | int), "a figure that is a number here and a histogram there"
            assert isinstance(reading.value, float | int), "the same the other way round"
            found[key] = known + reading.value
    return [MetricSample(name, labels, value) for (name, labels), value in found.items()]
