"""The supervisor of a service: starts Postgres, the API processes and the worker, restarts them, and stops them
together.

Let the parent do nothing else. It binds the port and accepts no connection; it starts the database and keeps no
connection to it, so that the end of a child cannot harm it.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import Struct

from ledger.postgres.connection_count import embedded_settings, fit_processes, require_connections
from ledger.postgres.embedded.archiving import archive_settings
from ledger.postgres.embedded.data_dir import ServerLease
from ledger.postgres.embedded.server import PostgresFailed
from ledger.service.child_main import Role
from ledger.service.child_process import ChildProcess
from ledger.service.child_slot import ChildSlot
from ledger.service.listen_socket import bind_socket, stop_accepting
from ledger.service.ping import LOOK_S
from ledger.service.shared_directory import shared_directory
from ledger.service.stop_signals import StopSignals
from ledger.settings import CannotRun, Settings, api_processes, stores_documents
from ledger.telemetry import all_processes
from ledger.telemetry.service_log import ServiceLog
from ledger.telemetry.slow_waits import reported_if_slow

if TYPE_CHECKING:
    from ledger.postgres.replication import Standbys

T = TypeVar("T")

STOP_S: Final = 10.0
_STARTING_POLL_S: Final = 0.02
_MENDING_POLL_S: Final = 0.05
_DATABASE_POLL_S: Final = 0.5

_log: Final = ServiceLog()


class ProcessPlan(Struct, frozen=True, kw_only=True):
    """The processes of a service. `api`, `worker` and `setup` are `module:name`, or None if that part is left out.

    `api` makes an ASGI application of the settings; `worker` is a coroutine function of the settings, a function to
    call when it is ready, and an event that ends it; `setup` is a function of the settings that ends before the others
    start, and `setup_name` names what it makes, for a person. `prints_json` prints that the service is ready as JSON.
    """

    name: str
    api: str | None = "api.app:create_app"
    worker: str | None = "ledger.background.worker:run"
    setup: str | None = None
    setup_name: str = "the preparation"
    shares_database: bool = False
    prints_json: bool = False


def serve(settings: Settings, plan: ProcessPlan) -> int:
    """Runs the processes until SIGTERM or SIGINT. Returns the exit status: 0, or 1 if a second signal cut the end
    short.

    Prints `ready http://host:port` (`ready` without an API), or `{"ready": …}`, once every part is ready. Raises
    CannotRun with the reason if a part does not become ready. Afterwards, it restarts every process that ends.
    """
    _log.configure(settings.log_format, settings.log_level)
    with StopSignals() as signals, shared_directory() as directory:
        service = _Supervisor(settings, plan, signals, directory)
        try:
            service.start()
            service.watch()
        except KeyboardInterrupt:
            pass
        finally:
            began = time.monotonic()
            if signals.stopping:
                _log.info("stop_requested", f"{signals.name}: ending what is in flight", signal=signals.name)
            service.stop()
            if signals.stopping:
                _report_stop(signals, time.monotonic() - began)
    return 1 if signals.hurry else 0


class _Supervisor:
    def __init__(self, settings: Settings, plan: ProcessPlan, signals: StopSignals, directory: Path) -> None:
        self._settings = settings
        self._plan = plan
        self._signals = signals
        self._listener: socket.socket | None = None
        self._server: ServerLease | None = None
        self._children: list[ChildSlot] = []
        self._directory = directory
        self._is_prepared = False
        self._database_is_up = True
        self._database_fails = False
        self._all_ready = False
        self._reported_ready = False

    def start(self) -> None:
        """Starts all processes, in the order in which each needs the one before."""
        if self._settings.database_url is None:
            self._server = ServerLease(
                self._settings.data_dir,
                self._plan.name,
                stopping=lambda: self._signals.stopping,
                server_settings={**embedded_settings(self._settings), **archive_settings(self._settings)},
                report=_report_wait,
            )
            if not self._plan.shares_database:
                self._server.refuse_to_share()
        if self._plan.api is not None:
            with reported_if_slow(_report_wait, lambda: f"port {self._settings.port}, which is taken"):
                self._listener = bind_socket(self._settings.host, self._settings.port, self._stop_if_asked)
            self._settings = msgspec.structs.replace(self._settings, port=self._listener.getsockname()[1])
            self._spawn("api", 0)  # its imports take longer than the start of the database, which it waits for
        self._prepare()
        if self._plan.setup is not None:
            self._run_setup(self._plan.setup)
        self._configure_children()
        if self._plan.worker is not None:
            self._spawn("worker", place=api_processes(self._settings))
        if self._plan.api is not None:
            for place in range(1, api_processes(self._settings)):
                self._spawn("api", place)
        self._await_children()
        if self._server is None:
            assert self._settings.database_url is not None, "prepared"
            self._require_shared_files(self._settings.database_url)
        self._all_ready = True
        self._report_readiness()
        _log.info("processes_ready", "every process is ready")
        address = url_of(self._settings) if self._plan.api is not None else None
        line = (
            msgspec.json.encode({"ready": address}).decode()
            if self._plan.prints_json
            else f"ready {address or ''}".rstrip()
        )
        with suppress(BrokenPipeError):  # the process that started this one may have closed the pipe
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    def watch(self) -> None:
        """Restarts processes that have ended, until a signal asks to stop."""
        while not self._signals.stopping:
            self._keep_database()
            for slot in self._children:
                if what := slot.tick(may_start=self._database_is_up):
                    _log.warning("process_restart", what, role=slot.role)
            self._watch_readiness()
            self._signals.pause(LOOK_S if self._all_ready and self._database_is_up else _MENDING_POLL_S)

    def stop(self) -> None:
        """Lets the children finish their work in flight, then stops the embedded Postgres. A second signal stops all at
        once.
        """
        end = time.monotonic() + STOP_S
        if self._listener is not None:
            stop_accepting(self._listener)
            self._listener.close()
        children = [slot.child for slot in self._children if slot.child is not None]
        for child in children:
            child.ask_to_stop()
        while any(child.is_alive() for child in children):
            if self._signals.hurry or time.monotonic() > end - 1:
                break
            self._signals.pause(_STARTING_POLL_S)
        for child in children:
            child.end()
        if self._server is not None:
            self._server.stop(max(0.5, end - time.monotonic()), at_once=self._signals.hurry)

    def _keep_database(self) -> None:
        """Ticks the database. Failed starts are reported once, and do not end a service that was ready."""
        try:
            self._tick_database()
        except PostgresFailed as failure:
            if not self._database_fails:
                _log.error("postgres_start_failed", f"{failure}; trying again until it starts")
            self._database_fails = True

    def _tick_database(self) -> None:
        if self._server is None:
            return
        is_up = self._server.tick()
        if is_up != self._database_is_up:
            if is_up:
                _log.warning("postgres_back", "Postgres is back")
            else:
                _log.error("postgres_ended", "Postgres has ended; starting it again")
            self._database_fails = False
        self._database_is_up = is_up

    def _watch_readiness(self) -> None:
        all_ready = all(slot.is_ready() for slot in self._children)
        if all_ready and not self._all_ready:
            _log.warning("processes_ready", "every process is ready again")
        elif self._all_ready and not all_ready:
            _log.warning("processes_not_ready", "not every process is ready: /health/ready is 503")
        self._all_ready = all_ready
        self._report_readiness()

    def _report_readiness(self) -> None:
        if self._all_ready != self._reported_ready and all_processes.report(self._directory, all_ready=self._all_ready):
            self._reported_ready = self._all_ready

    def _prepare(self) -> None:
        """Waits for the database, and brings its schema and roles up to date."""
        if self._server is not None:
            self._server.wait()
            if self._server.cluster.is_elsewhere:
                _report(
                    f"Postgres cannot enter {self._settings.data_dir}; its files are in {self._server.cluster.home}"
                )
        owner_url = self._server.url if self._server is not None else self._settings.database_url
        assert owner_url is not None, "there is a server of our own or a URL"
        with reported_if_slow(_report_wait, lambda: "the database: its answers, migrations and roles"):
            self._settings = self._prepared(owner_url)
            allowed = self._await_database(lambda: self._checked(owner_url))
        self._settings = fit_processes(self._settings, allowed)
        require_connections(self._settings, allowed)

    def _prepared(self, owner_url: str) -> Settings:
        """Prepares the database, once the clocks of this machine and of the database are together."""
        from ledger.postgres.prepare import prepare
        from ledger.postgres.registration import require_clock

        def once() -> Settings:
            prepared = prepare(self._settings, owner_url)
            require_clock(owner_url)
            return prepared

        return self._await_database(once)

    def _checked(self, owner_url: str) -> int:
        """Checks where files are, reports the standbys, and returns how many connections the application may open."""
        from ledger.postgres.prepare import connections_allowed, require_archived_events, standbys_of

        require_archived_events(owner_url, self._settings)
        assert self._settings.database_url is not None, "prepared"
        if self._server is None:
            self._require_shared_files(owner_url)
            self._report_standbys(standbys_of(owner_url))
        return connections_allowed(self._settings.database_url)

    def _await_database(self, step: Callable[[], T]) -> T:
        """Takes a step of the start at the database. On a Postgres of the operator's own, waits for a primary and for
        the right time, takes it again, and reports that it waits.
        """
        from ledger.postgres.prepare import NoPrimary, away_as_no_primary
        from ledger.postgres.registration import ClockApart

        until = time.monotonic() + (self._settings.database_wait_s if self._server is None else 0.0)
        is_reported = False
        while True:
            try:
                with away_as_no_primary():
                    return self._beside_signals(step)
            except (NoPrimary, ClockApart) as reason:
                if time.monotonic() >= until:
                    raise
                if not is_reported:
                    awaited = "a primary" if isinstance(reason, NoPrimary) else "the right time"
                    wait_s = self._settings.database_wait_s
                    _log.warning("database_waits", f"{reason}; waiting for {awaited}, at most {wait_s:g} s")
                is_reported = True
            self._stop_if_asked()
            self._signals.pause(_DATABASE_POLL_S)

    def _beside_signals(self, step: Callable[[], T]) -> T:
        """Takes a step that may wait for the database without end, such as for another machine's migration.

        If a signal asks to stop meanwhile, the step is left to itself: its statement is not cancelled, which may be a
        commit that waits for the standby. Raises what the step raises, and KeyboardInterrupt.
        """
        taken = Future[T]()

        def take() -> None:
            try:
                taken.set_result(step())
            except BaseException as fault:  # noqa: BLE001 - it is raised where the step is waited for
                taken.set_exception(fault)

        Thread(target=take, name="start", daemon=True).start()
        while not taken.done():
            wait([taken], timeout=_STARTING_POLL_S)
            self._stop_if_asked()
        return taken.result()

    def _require_shared_files(self, owner_url: str) -> None:
        """Raises CannotRun if this machine would keep invoices apart from those of another one."""
        from ledger.invoicing.files import files_address, files_place
        from ledger.postgres.registration import require_shared_files

        if stores_documents(self._settings):
            url = files_address(self._settings.files_url, self._settings.data_dir)
            require_shared_files(owner_url, files_place(url))

    def _report_standbys(self, standbys: Standbys) -> None:
        """Logs which standbys the database has, as a warning if every commit waits for one that is not there."""
        if standbys.is_missing:
            _log.warning("database_standbys", f"standbys of the database: {standbys.text}", missing=True)
        else:
            _log.info("database_standbys", f"standbys of the database: {standbys.text}", missing=False)

    def _spawn(self, role: Role, place: int) -> None:
        """Starts a child in a place of its own. It begins once the database is prepared."""
        target = self._plan.api if role == "api" else self._plan.worker
        assert target is not None, "only what is in the plan is spawned"
        listener = self._listener.fileno() if role == "api" and self._listener is not None else None

        def start() -> ChildProcess:
            child = ChildProcess(role, target, listener=listener, place=place, directory=self._directory)
            return child.configure(self._settings) if self._is_prepared else child

        self._children.append(ChildSlot(role, start))

    def _configure_children(self) -> None:
        """Lets the children that were started before the database was prepared begin."""
        self._is_prepared = True
        for slot in self._children:
            if slot.child is not None:
                slot.child.configure(self._settings)

    def _run_setup(self, target: str) -> None:
        setup = ChildProcess("once", target).configure(self._settings)
        slot = ChildSlot("once", lambda: setup)
        self._children.append(slot)
        with reported_if_slow(_report_wait, lambda: self._plan.setup_name):
            while setup.is_alive():
                self._await_something()
        self._children.remove(slot)
        done = setup.is_ready
        setup.end()
        if not done:
            raise CannotRun(f"{self._plan.setup_name} could not be made: the process {setup.ending}")

    def _await_children(self) -> None:
        """Waits until all children are ready. On a Postgres of the operator's own, replaces one that has ended because
        the database went away meanwhile, for as long as a start waits for a primary. Raises CannotRun.
        """

        def waited() -> list[ChildSlot]:
            return [slot for slot in self._children if not slot.is_ready()]

        def missing() -> str:
            names = [f"{slot.role} process {slot.child.place}" for slot in waited() if slot.child is not None]
            return f"{' and '.join(names) or 'the next process'} to become ready"

        until = time.monotonic() + (self._settings.database_wait_s if self._server is None else 0.0)
        with reported_if_slow(_report_wait, missing):
            while waited():
                for slot in waited():
                    child = slot.child
                    if child is not None and not child.is_alive():
                        if not child.lacks_database or time.monotonic() >= until:
                            raise CannotRun(f"the {child.role} process {child.ending} before it was ready")
                    elif child is not None:
                        continue
                    if what := slot.tick(may_start=True):
                        _log.warning("process_restart", what, role=slot.role)
                self._await_something()

    def _await_something(self) -> None:
        self._tick_database()
        self._stop_if_asked()
        self._signals.pause(_STARTING_POLL_S)

    def _stop_if_asked(self) -> None:
        if self._signals.stopping:
            raise KeyboardInterrupt


def url_of(settings: Settings) -> str:
    """Returns the service's address: `http://127.0.0.1:8000`."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def _report_stop(signals: StopSignals, seconds: float) -> None:
    if signals.hurry:
        _log.warning("service_stopped", "a second signal cut the end short", seconds=round(seconds, 2))
    else:
        _log.info("service_stopped", f"ended in {seconds:.1f} s", seconds=round(seconds, 2))


def _report_wait(what: str) -> None:
    _log.info("start_waits", f"waiting for {what}")


def _report(message: str) -> None:
    _log.warning("postgres_files_elsewhere", message)
