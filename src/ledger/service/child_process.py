"""The parent's view of one child process: starts it with its configuration, reads whether it is ready, ends it.

Keep the write end of the child's standard input open as long as the parent runs, and pass it to no other process: a
child exits when it is closed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from ledger.service.child_main import DATABASE_AWAY, ChildConfig, Role, encode_config
from ledger.service.ping import Ping
from ledger.settings import Settings

_START_MAX_S: Final = 60.0


class ChildProcess:
    """A process of the tree. `is_ready` becomes true once it has reported that it is. `place` is its number in the
    service.

    It imports its target, which takes longer than everything else of its start, and then waits for `configure`.
    `directory` holds the counts that it shares with the other processes of the service.
    """

    def __init__(
        self,
        role: Role,
        target: str,
        *,
        listener: int | None = None,
        place: int = 0,
        directory: Path | None = None,
    ) -> None:
        self.role = role
        self.place = place
        self.is_ready = False
        self._listener = listener
        self._started = time.monotonic()
        self._killed = False
        self._ping: Ping | None = None
        shared = {"PROMETHEUS_MULTIPROC_DIR": str(directory), "PROMETHEUS_MULTIPROC_PROCESS": f"{role}-{place}"}
        self._ready, ready = os.pipe()
        os.set_blocking(self._ready, False)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ledger.service.child_main", target, str(ready), role],
                stdin=subprocess.PIPE,
                # Standard output has the parent's one line; a task that ends prints to the person who started it.
                stdout=None if role == "once" else sys.stderr.fileno(),
                pass_fds=[each for each in (ready, listener) if each is not None],
                env=os.environ | (shared if directory else {}),
            )
        except OSError:  # it is tried again: each try would leave one more descriptor
            os.close(self._ready)
            raise
        finally:
            os.close(ready)

    def configure(self, settings: Settings) -> Self:
        """Sends the process its settings, with which it begins. Returns this object."""
        assert self._process.stdin is not None, "it is a pipe"
        config = ChildConfig(settings, self._listener)
        with suppress(BrokenPipeError):  # the child has ended already, which `is_alive` returns
            self._process.stdin.write(encode_config(config))
            self._process.stdin.flush()
        self._ping = Ping(self._process.stdin.fileno(), self._ready, settings.ping_timeout_s)
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        """Returns whether it runs, and sets `is_ready` once it has reported that."""
        if not self.is_ready:
            with suppress(BlockingIOError):
                self.is_ready = os.read(self._ready, 1) == b"1"
        return self._process.poll() is None

    def end_if_stopped(self) -> str:
        """Kills it if it leaves a ping unanswered, or its start unfinished, for too long.

        Returns the reason for a person, "" if the process goes on.
        """
        now = time.monotonic()
        if self._killed or not self.is_alive():
            return ""
        if self._ping is not None and self.is_ready and self._ping.is_overdue(now):
            reason = f"has not answered for {self._ping.limit_s:g} s"
        elif not self.is_ready and now - self._started > _START_MAX_S:
            reason = f"was not ready after {_START_MAX_S:g} s"
        else:
            return ""
        self._process.kill()
        self._killed = True
        return reason

    @property
    def ending(self) -> str:
        """How it ended, for a person."""
        if self.lacks_database:
            return "ended without its database"
        code = self._process.returncode
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    @property
    def lacks_database(self) -> bool:
        """Whether it has ended because its database is away."""
        return self._process.returncode == DATABASE_AWAY

    def ask_to_stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        """Kills the process if it still runs, and closes the parent's pipes to it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # of settings that a child never read
                self._process.stdin.close()
        os.close(self._ready)
