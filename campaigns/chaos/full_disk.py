"""A disk that fills up under load: the one with the data, then the one with the write-ahead log.

The disks are small file systems in memory, mounted for the service alone and unmounted with it. If nothing can be mounted,
the campaign raises CannotMount.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Self

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import RECOVERED, Campaign, Unmet
from campaigns.chaos.service import Service
from campaigns.chaos.wire import Wire

_DATA_MB, _LOG_MB = 384, 128
_FULL_S = 1.0
_PANIC_PATIENCE_S = _READY_PATIENCE_S = 60.0
_KEEPS_LITTLE_LOG = """
from ledger.cli.main import main
from ledger.postgres.embedded import server
server.SETTINGS = {**server.SETTINGS, "wal_recycle": "off", "min_wal_size": "32MB", "max_wal_size": "64MB"}
main()
"""
_EXPLAINED = frozenset({200, 201, 404, 409, 422, 503})


class CannotMount(Exception):
    """The machine does not allow mounting."""


class OnSmallDisks(Service):
    """`ledger serve` with its data on one small disk and its write-ahead log on another.

    Its Postgres keeps no file of the log to write over. In an installation it keeps a gigabyte of them: here they would
    fill the disk after some rounds, and no filler would be left whose deletion makes room.
    """

    command = (sys.executable, "-P", "-c", _KEEPS_LITTLE_LOG)

    def __init__(self) -> None:
        super().__init__()
        self.log_disk = self.home / "wal"
        self.log_disk.mkdir()
        self._mounted: list[Path] = []
        try:
            self._mount(self.data_dir, _DATA_MB)
            self._mount(self.log_disk, _LOG_MB)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *reason: object) -> None:
        try:
            self.stop()
            self._end_postgres()
        finally:
            for place in self._mounted:
                subprocess.run(["umount", "--lazy", place], check=True)
            super().__exit__(*reason)

    def start(self) -> Self:
        """Creates the cluster, moves its log to the other disk, and starts the service."""
        super().start()
        self.stop()
        self._end_postgres()
        log = self.data_dir / "pg" / "pg_wal"
        place = self.log_disk / "pg_wal"
        shutil.copytree(log, place)
        for each in (place, *place.rglob("*")):
            os.chown(each, log.stat().st_uid, log.stat().st_gid)
        place.chmod(0o700)
        shutil.rmtree(log)
        log.symlink_to(place)
        return super().start()

    def _mount(self, place: Path, megabytes: int) -> None:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0711", "tmpfs", str(place)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotMount(done.stderr.strip())
        self._mounted.append(place)


def can_mount() -> bool:
    """Returns whether these campaigns can run on this machine."""
    if os.geteuid() != 0:
        return False
    try:
        with OnSmallDisks():
            return True
    except (CannotMount, OSError):
        return False


def fill(disk: Path) -> Path:
    """Fills a disk to the last byte; returns the file whose deletion makes room again."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


async def _fill_data(service: Service, _random: Random) -> float:
    """Fills the disk of the data until every process reports it, and waits until each is well again."""
    filler = await asyncio.to_thread(fill, service.data_dir)
    try:
        await _until(service, {"status": 503, "disk": False, "up": {"0.0"}})
        await asyncio.sleep(_FULL_S)
    finally:
        filler.unlink()
    ended = time.monotonic()
    await _until(service, {"status": 200, "disk": True, "up": {"1.0"}})
    return ended


async def _until(service: Service, expected: Mapping[str, object]) -> None:
    """Waits until readiness and the journal's metric are as expected. Raises Unmet."""
    until = time.monotonic() + _READY_PATIENCE_S
    while (found := await _readiness(service)) != expected:
        if time.monotonic() > until:
            raise Unmet(f"readiness is {found}, not {expected}")
        await asyncio.sleep(0.05)


async def _readiness(service: Service) -> Mapping[str, object]:
    wire = Wire()
    await wire.open(service.port)
    answer = await wire.ask("GET", "/health/ready", "")
    text = (await wire.ask("GET", "/metrics", "")).body.decode()
    await wire.close()
    up = re.findall(r"^ledger_journal_up\{[^}]*\} (\S+)$", text, re.MULTILINE)
    return {"status": answer.status, "disk": json.loads(answer.body)["checks"]["disk"], "up": set(up)}


async def _fill_log(service: Service, _random: Random) -> float:
    """Fills the disk of the log until Postgres stops, at the next segment that it has no room for."""
    assert isinstance(service, OnSmallDisks), "the campaign makes one"
    postmaster = service.postmaster()
    filler = await asyncio.to_thread(fill, service.log_disk)
    try:
        until = time.monotonic() + _PANIC_PATIENCE_S
        while service.postmaster() == postmaster:
            if time.monotonic() > until:
                raise Unmet("Postgres never missed the room")
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
    finally:
        filler.unlink()
    return time.monotonic()


def _reads_go_on(around: Sequence[Ended]) -> list[str]:
    """Yields answers that are wrong while the data's disk is full: writes are refused with 503, reads succeed."""
    odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
    wrong = [f"{n} requests were answered with {status or 'nothing'}" for status, n in odd.items()]
    reads = [request.status for request in around if request.do in {"read", "list"}]
    if 503 in reads:
        wrong.append(f"{reads.count(503)} of {len(reads)} reads were refused")
    if not any(request.status == 503 for request in around):
        wrong.append("nothing was refused: the disk was not full")
    return wrong


def _every_request_is_answered(around: Sequence[Ended]) -> list[str]:
    """Yields wrong answers. Postgres stops, and the service stays: every request has an answer."""
    odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
    return [f"{n} requests were answered with {status or 'nothing'}" for status, n in odd.items()]


FULL_DATA = Campaign(
    name="full-disk",
    about=f"the disk with the data is full until readiness shows it, and {_FULL_S:.0f} s more; no process is restarted",
    strike=_fill_data,
    expects=_reads_go_on,
    make=OnSmallDisks,
    back_max_s=5.0,
    beyond=frozenset({RECOVERED}),
)
FULL_LOG = Campaign(
    name="full-wal-disk",
    about="the disk with the write-ahead log is full until Postgres panics, then has room again",
    strike=_fill_log,
    expects=_every_request_is_answered,
    make=OnSmallDisks,
    beyond=frozenset({RECOVERED}),
)
