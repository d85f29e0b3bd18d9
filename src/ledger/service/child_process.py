"""The parent's view of one child process: started with an errand, asked whether it is ready, ended.

The rule a stranger would break: the parent keeps the write end of the child's standard input open for as long as it
lives, and gives it to nobody else. Its closing is how the child learns that the parent is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Literal

from ledger.service.child_main import ChildConfig, encode_errand
from ledger.settings import Settings


class ChildProcess:
    """A process of the tree. `is_ready` becomes true once it has said so. `place` is where it hangs its figures."""

    def __init__(
        self,
        role: Literal["api", "worker", "once"],
        target: str,
        settings: Settings,
        *,
        listener: int | None = None,
        board: int | None = None,
        place: int = 0,
    ) -> None:
        self.role = role
        self.place = place
        self.is_ready = False
        self._ready, ready = os.pipe()
        os.set_blocking(self._ready, False)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ledger.service.child_main", role],
                stdin=subprocess.PIPE,
                # Standard output belongs to the parent's one line; an errand speaks to the person who asked for it.
                stdout=None if role == "once" else sys.stderr.fileno(),
                pass_fds=[each for each in (ready, listener, board) if each is not None],
            )
        finally:
            os.close(ready)
        assert self._process.stdin is not None, "asked for above"
        errand = ChildConfig(role, target, settings, ready, listener, board, place)
        with suppress(BrokenPipeError):  # it has died already, and whoever looks next will see it
            self._process.stdin.write(encode_errand(errand))
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it runs; takes note of its word that it is ready on the way."""
        if not self.is_ready:
            with suppress(BlockingIOError):
                self.is_ready = os.read(self._ready, 1) == b"1"
        return self._process.poll() is None

    @property
    def ending(self) -> str:
        """How it ended, for a person."""
        code = self._process.returncode
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    def ask_to_stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        """End it where it stands if it still runs, and let go of what we hold of it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self._ready)
