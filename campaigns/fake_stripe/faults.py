"""The ways in which Stripe, or the way to it, fails. A fault treats one request."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from fnmatch import fnmatchcase
from random import Random

from msgspec import Struct


class Fault(StrEnum):
    """What becomes of one request."""

    OK = "ok"
    ERROR_BEFORE = "error_before"
    """A 500 and no effect. The 500 is stored under the key and replayed."""
    ERROR_AFTER = "error_after"
    """A 500 after the effect. The 500 is stored under the key and replayed."""
    RESET_BEFORE = "reset_before"
    """The connection is reset, and nothing was done."""
    RESET_AFTER = "reset_after"
    """The connection is reset, and everything was done."""
    SILENT_BEFORE = "silent_before"
    """No answer for a minute, and nothing was done."""
    SILENT_AFTER = "silent_after"
    """No answer for a minute, and everything was done."""
    LATE = "late"
    """The connection is reset at once, and the request arrives `seconds` later, as if for the first time."""
    SLOW = "slow"
    """Everything is done after `seconds`, and then answered. The key is in use until then: a second request gets 409."""
    SLOW_AFTER = "slow_after"
    """Everything is done at once, and answered after `seconds`."""
    RATE_LIMITED = "rate_limited"
    """A 429, not stored."""
    LOCKED = "locked"
    """A 429 with `lock_timeout`, not stored."""
    CONFLICT = "conflict"
    """A 409 with `idempotency_key_in_use`, not stored."""
    GARBAGE = "garbage"
    """Everything is done, and half an answer comes back."""


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault for the next `times` requests that match. `path` may have `*`: `/v1/payment_intents/*/confirm`."""

    fault: Fault
    method: str = "POST"
    path: str = "*"
    times: int = 1
    seconds: float = 1.0


class Trouble(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Random faults: each request that no plan matches gets one of `faults` with this probability."""

    probability: float = 0.0
    seed: int = 1
    seconds: float = 1.0
    method: str = "POST"
    faults: tuple[Fault, ...] = tuple(each for each in Fault if each is not Fault.OK)


class Faults:
    """The faults that are to come."""

    def __init__(self) -> None:
        self._plans: deque[Plan] = deque()
        self._trouble = Trouble()
        self._random = Random(1)

    @property
    def waiting(self) -> list[Plan]:
        return list(self._plans)

    def add(self, plans: list[Plan]) -> None:
        self._plans.extend(plans)

    def clear(self) -> None:
        self._plans.clear()
        self._trouble = Trouble()

    def set_trouble(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._random = Random(trouble.seed)

    def take(self, method: str, path: str) -> tuple[Fault, float]:
        """Returns the fault of a request and its seconds, and counts it as used."""
        for index, plan in enumerate(self._plans):
            if plan.method in {method, "*"} and fnmatchcase(path, plan.path):
                del self._plans[index]
                if plan.times > 1:
                    self._plans.insert(
                        index,
                        Plan(
                            fault=plan.fault,
                            method=plan.method,
                            path=plan.path,
                            times=plan.times - 1,
                            seconds=plan.seconds,
                        ),
                    )
                return plan.fault, plan.seconds
        trouble = self._trouble
        if trouble.method in {method, "*"} and self._random.random() < trouble.probability:
            return self._random.choice(trouble.faults), trouble.seconds
        return Fault.OK, 0.0
