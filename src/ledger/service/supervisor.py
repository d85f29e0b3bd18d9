"""The supervisor of a service: starts Postgres, the API processes and the worker, restarts them, and stops them
together.

Let the parent do nothing else. It binds the port and accepts no connection; it starts the database and keeps no
connection to it. So it has nothing to lose when a child ends.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final, Self

import msgspec
from msgspec import Struct

from ledger.postgres.connection_count import embedded_settings, require_connections
from ledger.postgres.embedded.data_dir import ServerLease
from ledger.service.child_main import Role
from ledger.service.child_process import ChildProcess
from ledger.service.listen_socket import bind_socket, stop_accepting
from ledger.service.ping import LOOK_S
from ledger.service.shared_directory import shared_directory
from ledger.settings import CannotRun, Settings

ENDINGS_MAX: Final = 5
ENDINGS_WINDOW_S: Final = 60.0
STOP_S: Final = 10.0
_SAME_SIGNAL_S: Final = 0.1
"""Signals closer than this are one: a signal to a process group reaches `make` too, which passes it on once more."""
_STARTING_POLL_S: Final = 0.02


class ProcessPlan(Struct, frozen=True, kw_only=True):
    """The processes of a service. `api`, `worker` and `errand` are `module:name`, or None where that part is left out.

    `api` makes an ASGI application of the settings; `worker` is a coroutine function of the settings, a function to
    call when it is ready, and an event that ends it; `errand` is a function of the settings that ends before the others
    start.
    """

    name: str
    api: str | None = "api.app:create_app"
    worker: str | None = "ledger.background.worker:run"
    errand: str | None = None
    shares_database: bool = False


def serve(settings: Settings, plan: ProcessPlan) -> int:
    """Runs the processes until SIGTERM or SIGINT. Returns the exit status: 0, or 1 where a second signal cut the end
    short.

    Prints `ready http://host:port` (`ready` without an API) once every part is ready. Raises CannotRun with the reason
    where a part cannot start or stay up.
    """
    with _Signals() as signals, shared_directory() as directory:
        service = _Supervisor(settings, plan, signals, directory)
        try:
            service.start()
            service.watch()
        except KeyboardInterrupt:
            pass
        finally:
            service.stop()
    return 1 if signals.hurry else 0


class _Signals:
    """SIGTERM and SIGINT, as a count that loops read; each ends a `pause`."""

    def __init__(self) -> None:
        self.count = 0
        self._last = float("-inf")
        self._wake, self._waker = socket.socketpair()

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
        """Waits until the time is over or a signal arrives."""
        select.select([self._wake], [], [], seconds)
        with suppress(BlockingIOError):
            self._wake.recv(4096)


class _Supervisor:
    def __init__(self, settings: Settings, plan: ProcessPlan, signals: _Signals, directory: Path) -> None:
        self._settings = settings
        self._plan = plan
        self._signals = signals
        self._listener: socket.socket | None = None
        self._server: ServerLease | None = None
        self._children: list[ChildProcess] = []
        self._directory = directory
        self._endings: deque[float] = deque(maxlen=ENDINGS_MAX)
        self._database_is_up = True

    def start(self) -> None:
        """Starts all processes, in the order in which each needs the one before."""
        if self._settings.database_url is None:
            self._server = ServerLease(
                self._settings.data_dir,
                self._plan.name,
                stopping=lambda: self._signals.stopping,
                server_settings=embedded_settings(self._settings),
            )
            if not self._plan.shares_database:
                self._server.refuse_to_share()
        if self._plan.api is not None:
            self._listener = bind_socket(self._settings.host, self._settings.port, self._stop_if_asked)
            self._settings = msgspec.structs.replace(self._settings, port=self._listener.getsockname()[1])
        if self._server is not None:
            self._server.wait()
            if self._server.cluster.is_elsewhere:
                _report(
                    f"Postgres cannot enter {self._settings.data_dir}; its files are in {self._server.cluster.home}"
                )
        self._prepare()
        if self._plan.errand is not None:
            self._run_errand(self._plan.errand)
        if self._plan.worker is not None:
            self._spawn("worker", place=self._settings.workers)
        if self._plan.api is not None:
            for place in range(self._settings.workers):
                self._spawn("api", place)
        self._await_children()
        address = f" {url_of(self._settings)}" if self._plan.api is not None else ""
        with suppress(BrokenPipeError):  # the process that started this one may have closed the pipe
            sys.stdout.write(f"ready{address}\n")
            sys.stdout.flush()

    def watch(self) -> None:
        """Restarts what ends, until a signal asks to stop. Raises CannotRun when a process ends again and again."""
        while not self._signals.stopping:
            self._tick_database()
            self._end_stopped_children()
            self._replace_dead_children()
            self._signals.pause(LOOK_S if self._database_is_up else _STARTING_POLL_S)

    def stop(self) -> None:
        """Lets the children finish what is in flight, then stops the embedded Postgres; at once after a second
        signal.
        """
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
        if self._server is not None:
            self._server.stop(max(0.5, end - time.monotonic()), at_once=self._signals.hurry)

    def _tick_database(self) -> None:
        if self._server is None:
            return
        is_up = self._server.tick()
        if is_up != self._database_is_up:
            _report("Postgres is back" if is_up else "Postgres has ended; starting it again")
        self._database_is_up = is_up

    def _prepare(self) -> None:
        from ledger.postgres.prepare import connections_allowed, prepare

        owner_url = self._server.url if self._server is not None else self._settings.database_url
        assert owner_url is not None, "there is a server of our own or a URL"
        self._settings = prepare(self._settings, owner_url)
        assert self._settings.database_url is not None, "prepared"
        require_connections(self._settings, connections_allowed(self._settings.database_url))

    def _spawn(self, role: Role, place: int) -> None:
        target = self._plan.api if role == "api" else self._plan.worker
        assert target is not None, "only what is in the plan is spawned"
        listener = self._listener.fileno() if role == "api" and self._listener is not None else None
        child = ChildProcess(role, target, self._settings, listener=listener, place=place, directory=self._directory)
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

    def _end_stopped_children(self) -> None:
        for child in self._children:
            if reason := child.end_if_stopped():
                _report(f"the {child.role} process (pid {child.pid}) {reason}; ending it")

    def _replace_dead_children(self) -> None:
        for child in [child for child in self._children if not child.is_alive()]:
            self._children.remove(child)
            child.end()
            self._endings.append(time.monotonic())
            if len(self._endings) == ENDINGS_MAX and self._endings[-1] - self._endings[0] <= ENDINGS_WINDOW_S:
                raise CannotRun(f"the {child.role} process {child.ending}, the fifth end of a process in a minute")
            _report(f"the {child.role} process (pid {child.pid}) {child.ending}; starting another")
            self._spawn(child.role, child.place)

    def _stop_if_asked(self) -> None:
        if self._signals.stopping:
            raise KeyboardInterrupt


def url_of(settings: Settings) -> str:
    """Returns the service's address: `http://127.0.0.1:8000`."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def _report(message: str) -> None:
    sys.stderr.write(f"ledger: {message}\n")
    sys.stderr.flush()
