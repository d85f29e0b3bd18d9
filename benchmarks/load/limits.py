"""The limits that the benchmarks are compared to, measured in turn with them.

R: how many single-row INSERTs a second pgbench gets into the journal's own event table, each its own transaction, with
the same event bytes. E: how many POSTs a second a bare Starlette application echoes.

Neither help nor hinder a limit. R keeps every index of the table, sends the event as a parameter of a prepared
statement, and commits durably, as the journal does.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict

from benchmarks.load.processes import child, run_one
from benchmarks.load.requests import UNIQUE, LoadPlan, Step
from benchmarks.measure.samples import Sample, sample
from benchmarks.scratch import pgbench_program
from ledger.settings import CannotRun

# One event, one transaction. Every client numbers a range of its own, so that (merchant, position) stays unique without
# a sequence to wait for.
_INSERT: Final = """\\set n :n + 1
insert into event (merchant_id, stream_id, version, position, command_id, recorded_at, topic, data, context)
values (:merchant::uuid, gen_random_uuid(), 1, (:run::int8 << 48) + (:client_id::int8 << 32) + :n, gen_random_uuid(),
  clock_timestamp(), 'order-created.v1', convert_to(:data, 'UTF8'), '\\x7b7d');
"""
_MERCHANT: Final = "0198c0de-0000-7000-8000-000000000001"
_LOG_SHARE: Final = 0.25


class InsertLimit:
    """Single-row INSERTs into the event table of a database, each of `event` (JSON text in UTF-8)."""

    def __init__(self, url: str, event: bytes) -> None:
        self._url = url
        self._event = event.decode()

    def run(self, clients: int, seconds: float) -> Sample:
        """Measures R with this many clients. Raises CannotRun with pgbench's error."""
        with tempfile.TemporaryDirectory(prefix="pgbench-") as folder:
            script = Path(folder) / "insert.sql"
            script.write_text(_INSERT)
            arguments = {
                "protocol": "prepared",
                "client": clients,
                "jobs": min(clients, 2),
                "time": max(1, round(seconds)),
                "file": script,
                "log-prefix": f"{folder}/log",
                "sampling-rate": _LOG_SHARE,
            }
            variables = {"n": 0, "run": self._run_number(), "merchant": _MERCHANT, "data": self._event}
            done = subprocess.run(
                [
                    pgbench_program(),
                    "--no-vacuum",
                    "--log",
                    *[f"--{name}={value}" for name, value in arguments.items()],
                    *[f"--define={name}={value}" for name, value in variables.items()],
                ],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | _environment(self._url),
            )
            if done.returncode:
                raise CannotRun(f"pgbench failed: {' '.join(done.stderr.split())[-400:]}")
            return _read(done.stdout, Path(folder))

    def _run_number(self) -> int:
        """Returns a number that no run has used in this table: limits of several sizes share the table."""
        with psycopg.connect(self._url) as connection:
            query = "select coalesce(max(position) >> 48, 0) + 1 from event where merchant_id = %s"
            row = connection.execute(query, [_MERCHANT]).fetchone()
        assert row is not None, "an aggregate always answers"
        return int(row[0])


def _read(output: str, folder: Path) -> Sample:
    transactions = re.search(r"transactions actually processed: (\d+)", output)
    rate = re.search(r"tps = ([\d.]+)", output)
    if transactions is None or rate is None:
        raise CannotRun(f"pgbench printed no transactions or no rate: {output[-400:]}")
    latencies = [int(line.split()[2]) / 1e6 for log in folder.glob("log.*") for line in log.read_text().splitlines()]
    seen = sample(latencies, 1.0)
    done = int(transactions[1])
    return replace(seen, done=done, seconds=done / float(rate[1]))


def _environment(url: str) -> dict[str, str]:
    """Returns a connection string as the variables of libpq: a password must not appear in the list of processes."""
    given = conninfo_to_dict(url)
    names = {"dbname": "PGDATABASE", "host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
    return {names.get(key, f"PG{key.upper()}"): str(value) for key, value in given.items()}


class EchoLimit:
    """A bare Starlette application in a process of its own, and POSTs to it."""

    def __init__(self, port: int, pid: int) -> None:
        self._port = port
        self.pid = pid

    def run(self, body: str, in_flight: int, seconds: float) -> Sample:
        """Measures E with this body, in which `UNIQUE` is replaced as in the service's requests."""
        plan = LoadPlan(
            host="127.0.0.1",
            port=self._port,
            connections=in_flight,
            seconds=seconds,
            steps=[Step(path="/echo", body=body, expect=201)],
        )
        assert UNIQUE in body, "the limit sends the requests that it limits"
        return run_one("benchmarks.load.requests", plan)


@contextmanager
def echo_limit() -> Iterator[EchoLimit]:
    """Yields the echo while its process runs."""
    with child("benchmarks.load.echo") as process:
        assert process.stdout is not None
        yield EchoLimit(int(process.stdout.readline()), process.pid)
