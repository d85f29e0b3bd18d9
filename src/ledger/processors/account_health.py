"""Whether the accounts of processors answer: a circuit breaker for each method of an account.

The processes of a service on one machine share the state, in a file in memory. It is not kept: after a start every
circuit is closed. Count only what shows whether a processor is reached: a decline is an answer, and a call without one
shows neither.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.terms import CircuitState

FAILURES_MAX: Final = 5
"""After how many payments in a row that did not reach the processor a circuit opens."""
OPEN_S: Final = 30.0
"""How long an open circuit takes no payment that another account can take, in seconds."""
PROBE_S: Final = 30.0
"""How long the one payment that tries a half-open circuit may take before another one tries."""

_SLOTS: Final = 1 << 12
_PROBES: Final = 8
_SLOT: Final = Struct("16sqdd")
_EMPTY: Final = bytes(16)
_NEAR: Final = _PROBES * _SLOT.size


class _Circuit(NamedTuple):
    """A slot: failures in a row, until when the circuit is open, and until when a payment tries it, by the clock."""

    slot: int
    failures: int = 0
    open_until: float = 0.0
    tried_until: float = 0.0


class AccountHealth:
    """The circuits of all accounts. `directory` is where the shared file is; without one, the process counts alone.

    `clock` is monotonic, in seconds, and the same for all processes of the machine. A circuit without failures has no
    slot; if all places of one are taken, it takes the place of the circuit that failed first.
    """

    def __init__(
        self, directory: str | None = None, clock: Callable[[], float] = time.monotonic, slots: int = _SLOTS
    ) -> None:
        self.clock = clock
        self._starts = slots - _PROBES + 1
        with Path(directory, "account_health").open("a+b") if directory else tempfile.TemporaryFile() as file:
            self._lock = os.dup(file.fileno())
        with self._locked():
            if not os.fstat(self._lock).st_size:  # written in full, so that the table always has its memory
                os.write(self._lock, bytes(slots * _SLOT.size))
        self._table = mmap.mmap(self._lock, slots * _SLOT.size)

    def close(self) -> None:
        self._table.close()
        os.close(self._lock)

    def state(self, merchant_id: UUID, account: str, method: MethodType) -> CircuitState:
        """Returns the state of a method of an account, as the payments of this machine have found it."""
        circuit = self._find(_key(merchant_id.int, account, method))
        if circuit is None or circuit.failures < FAILURES_MAX:
            return CircuitState.CLOSED
        return CircuitState.OPEN if self.clock() < circuit.open_until else CircuitState.HALF_OPEN

    def admits(self, merchant_id: UUID, account: str, method: MethodType) -> bool:
        """Returns whether a payment should be sent there before any other account. One alone tries a half-open one."""
        key = _key(merchant_id.int, account, method)
        circuit = self._find(key)
        if circuit is None or circuit.failures < FAILURES_MAX:
            return True
        with self._locked():
            circuit, now = self._find(key), self.clock()
            if circuit is None:
                return True
            if now < circuit.open_until or now < circuit.tried_until:
                return False
            self._write(key, circuit._replace(tried_until=now + PROBE_S))
            return True

    def failed(self, merchant_id: UUID, account: str, method: MethodType) -> bool:
        """Counts a payment that did not reach the processor. Returns whether that has opened the circuit."""
        key = _key(merchant_id.int, account, method)
        with self._locked():
            now = self.clock()
            circuit = self._find(key) or _Circuit(self._room(key))
            failures = circuit.failures + 1
            opens = failures >= FAILURES_MAX and now >= circuit.open_until
            open_until = now + OPEN_S if failures >= FAILURES_MAX else 0.0
            self._write(key, _Circuit(circuit.slot, failures, open_until))
            return opens

    def answered(self, merchant_id: UUID, account: str, method: MethodType) -> bool:
        """Closes the circuit: the processor has answered. Returns whether it was not closed."""
        key = _key(merchant_id.int, account, method)
        if self._find(key) is None:
            return False
        with self._locked():
            circuit = self._find(key)
            if circuit is None:
                return False
            _SLOT.pack_into(self._table, circuit.slot, _EMPTY, 0, 0.0, 0.0)
            return circuit.failures >= FAILURES_MAX

    def _find(self, key: bytes) -> _Circuit | None:
        start = self._start(key)
        if key not in self._table[start : start + _NEAR]:  # every payment asks, and hardly one has a circuit
            return None
        for slot in range(start, start + _NEAR, _SLOT.size):
            held, failures, open_until, tried_until = _SLOT.unpack_from(self._table, slot)
            if held == key:
                return _Circuit(slot, failures, open_until, tried_until)
        return None

    def _room(self, key: bytes) -> int:
        """Returns a free place for a circuit, or that of the one which was open until the earliest time."""
        found: list[tuple[float, int]] = []
        start = self._start(key)
        for slot in range(start, start + _NEAR, _SLOT.size):
            held, _, open_until, _ = _SLOT.unpack_from(self._table, slot)
            if held == _EMPTY:
                return slot
            found.append((open_until, slot))
        return min(found)[1]

    def _start(self, key: bytes) -> int:
        """Returns where the places of a circuit begin."""
        return int.from_bytes(key[:8]) % self._starts * _SLOT.size

    def _write(self, key: bytes, circuit: _Circuit) -> None:
        _SLOT.pack_into(self._table, circuit.slot, key, circuit.failures, circuit.open_until, circuit.tried_until)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)


@lru_cache(maxsize=4096)
def _key(merchant: int, account: str, method: MethodType) -> bytes:
    """Returns the name of a circuit. `merchant` is the merchant's id as a number, which is found faster than a UUID."""
    return blake2b(f"{account}/{method}".encode(), digest_size=16, key=merchant.to_bytes(16)).digest()
