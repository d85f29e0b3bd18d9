"""The process tree of a service: Postgres, the API processes and the worker, kept alive and stopped together.

The rule a stranger would break: the parent does nothing but watch. It opens the port but accepts nothing, starts the
database but keeps no connection, and so has nothing to lose when a child dies.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from types import FrameType
from typing import Final, Literal, Self

import msgspec
from msgspec import Struct

from ledger.postgres.embedded.data_dir import ServerLease
from ledger.service.child_process import ChildProcess
from ledger.service.listen_socket import bind_socket, stop_accepting
from ledger.settings import CannotRun, Settings
from ledger.telemetry.shared_metrics import create_shared_metrics

DEATHS_MAX: Final = 5
DEATH_WINDOW_S: Final = 60.0
STOP_S: Final = 10.0
_SAME_SIGNAL_S: Final = 0.1
"""Signals closer than this are one: whoever ends a process group ends `make` too, which passes the signal on once more."""
_STARTING_POLL_S: Final = 0.02
_WATCHING_POLL_S: Final = 0.5


class ProcessPlan(Struct, frozen=True, kw_only=True):
    """What a tree is made of. `api`, `worker` and `errand` are `module:name`, or None where that part is left out.

    `api` makes an ASGI application of the settings; `worker` is a coroutine function of the settings, a function to call
    when it is ready and an event that ends it; `errand` is a function of the settings that ends before anything serves.
    """

    name: str
    api: str | None = "api.app:create_app"
    worker: str | None = "ledger.background.worker:run"
    errand: str | None = None
    shares_database: bool = False


def serve(settings: Settings, tree: ProcessPlan) -> int:
    """Run the tree until SIGTERM or SIGINT, and return the exit status: 0, or 1 where a second signal cut the end short.

    Prints `ready http://host:port` (`ready` without an API) once every part is ready. Raises CannotRun with the reason
    where a part cannot start or stay up.
    """
    with _Signals() as signals:
        service = _Supervisor(settings, tree, signals)
        try:
            service.start()
            service.watch()
        except KeyboardInterrupt:
            pass
        finally:
            service.stop()
    return 1 if signals.hurry else 0


class _Signals:
    """SIGTERM and SIGINT as a count that loops look at, and as a wake-up of whoever waits in `pause`."""

    def __init__(self) -> None:
        self.count = 0
        self._last = float("-inf")
        self._wake, self._waker = socket.socketpair()
        self._before: dict[int, object] = {}

    @property
    def stopping(self) -> bool:
        return self.count > 0

    @property
    def hurry(self) -> bool:
        return self.count > 1

    def __enter__(self) -> Self:
        for end in (self._wake, self._waker):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake up when a child ends
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last > _SAME_SIGNAL_S:
            self.count += 1
        self._last = now

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the next signal."""
        select.select([self._wake], [], [], seconds)
        with suppress(BlockingIOError):
            self._wake.recv(4096)


class _Supervisor:
    def __init__(self, settings: Settings, tree: ProcessPlan, signals: _Signals) -> None:
        self._settings = settings
        self._tree = tree
        self._signals = signals
        self._listener: socket.socket | None = None
        self._keeper: ServerLease | None = None
        self._children: list[ChildProcess] = []
        self._board = create_shared_metrics()
        self._deaths: deque[float] = deque()
        self._database_is_up = True

    def start(self) -> None:
        """Bring everything up, in the order in which each needs the one before."""
        if self._settings.database_url is None:
            self._keeper = ServerLease(
                self._settings.data_dir, self._tree.name, stopping=lambda: self._signals.stopping
            )
            if not self._tree.shares_database:
                self._keeper.refuse_to_share()
        if self._tree.api is not None:
            self._listener = bind_socket(self._settings.host, self._settings.port, self._stop_if_asked)
            self._settings = msgspec.structs.replace(self._settings, port=self._listener.getsockname()[1])
        if self._keeper is not None:
            self._keeper.wait()
            if self._keeper.cluster.is_elsewhere:
                _say(f"Postgres cannot enter {self._settings.data_dir}; its files are in {self._keeper.cluster.home}")
        self._prepare()
        if self._tree.errand is not None:
            self._run_errand(self._tree.errand)
        if self._tree.worker is not None:
            self._spawn("worker", place=self._settings.workers)
        if self._tree.api is not None:
            for place in range(self._settings.workers):
                self._spawn("api", place)
        self._await_children()
        address = f" {url_of(self._settings)}" if self._tree.api is not None else ""
        with suppress(BrokenPipeError):  # whoever started us may not be listening any more
            sys.stdout.write(f"ready{address}\n")
            sys.stdout.flush()

    def watch(self) -> None:
        """Keep everything up until we are asked to stop. Raises CannotRun when a part cannot be kept up."""
        while not self._signals.stopping:
            self._tick_database()
            self._replace_dead_children()
            self._signals.pause(_WATCHING_POLL_S if self._database_is_up else _STARTING_POLL_S)

    def stop(self) -> None:
        """Let the children finish what is in flight, then stop Postgres if it is ours; at once after a second signal."""
        end = time.monotonic() + STOP_S
        if self._listener is not None:
            stop_accepting(self._listener)
            self._listener.close()
        for child in self._children:
            child.ask_to_stop()
        while any(child.is_alive() for child in self._children):
            if self._signals.hurry or time.monotonic() > end - 1:
                break
            self._signals.pause(_STARTING_POLL_S)
        for child in self._children:
            child.end()
        if self._keeper is not None:
            self._keeper.stop(max(0.5, end - time.monotonic()), at_once=self._signals.hurry)

    def _tick_database(self) -> None:
        if self._keeper is None:
            return
        is_up = self._keeper.tick()
        if is_up != self._database_is_up:
            _say("Postgres is back" if is_up else "Postgres has died; starting it again")
        self._database_is_up = is_up

    def _prepare(self) -> None:
        from ledger.postgres.prepare import prepare

        owner_url = self._keeper.url if self._keeper is not None else self._settings.database_url
        assert owner_url is not None, "one of the two is always there"
        self._settings = prepare(self._settings, owner_url)

    def _spawn(self, role: Literal["api", "worker"], place: int) -> None:
        target = self._tree.api if role == "api" else self._tree.worker
        assert target is not None, "only parts of the tree are spawned"
        listener = self._listener.fileno() if role == "api" and self._listener is not None else None
        child = ChildProcess(role, target, self._settings, listener=listener, board=self._board, place=place)
        self._children.append(child)

    def _run_errand(self, target: str) -> None:
        errand = ChildProcess("once", target, self._settings)
        self._children.append(errand)
        while errand.is_alive():
            self._await_something()
        self._children.remove(errand)
        done = errand.is_ready
        errand.end()
        if not done:
            raise CannotRun(f"{target} {errand.ending}")

    def _await_children(self) -> None:
        while not all(child.is_ready for child in self._children):
            for child in self._children:
                if not child.is_alive():
                    raise CannotRun(f"the {child.role} process {child.ending} before it was ready")
            self._await_something()

    def _await_something(self) -> None:
        self._tick_database()
        self._stop_if_asked()
        self._signals.pause(_STARTING_POLL_S)

    def _replace_dead_children(self) -> None:
        for child in [child for child in self._children if not child.is_alive()]:
            self._children.remove(child)
            child.end()
            now = time.monotonic()
            while self._deaths and self._deaths[0] < now - DEATH_WINDOW_S:
                self._deaths.popleft()
            self._deaths.append(now)
            if len(self._deaths) >= DEATHS_MAX:
                raise CannotRun(f"the {child.role} process {child.ending}, the fifth death of a part in a minute")
            _say(f"the {child.role} process (pid {child.pid}) {child.ending}; starting another")
            self._spawn("api" if child.role == "api" else "worker", child.place)

    def _stop_if_asked(self) -> None:
        if self._signals.stopping:
            raise KeyboardInterrupt


def url_of(settings: Settings) -> str:
    """The address that people use: `http://127.0.0.1:8000`."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def _say(message: str) -> None:
    sys.stderr.write(f"ledger: {message}\n")
    sys.stderr.flush()
