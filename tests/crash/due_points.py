"""Kills a worker around something that is due: between its timer and its job, inside the job, after its outcome.

The product has no hooks: these functions wrap it in the process that is killed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from ledger.background.scheduler import timers
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.events import PaymentCaptured
from ledger.journal.journal import Journal
from ledger.processors.sandbox.processor import SandboxProcessor

DUE_POINTS: Final = ("due-taken", "due-queued", "job-begun", "before-call", "after-call", "call-recorded")
"""Before the commit that turns a timer into a job, after it, in the job before its intent, after that and before the
call, after the processor's answer and before its outcome, after that and before the job leaves the queue.
"""


def arm(point: str, die: Callable[[], NoReturn]) -> None:
    """Makes this process die at a point."""
    if point in {"due-taken", "due-queued"}:
        _arm_due_times(point, die)
    elif point == "job-begun":

        async def deadly_run_task(*_: Any) -> None:
            die()

        Jobs._run_task = deadly_run_task  # type: ignore[method-assign, assignment]
    else:
        _arm_call(point, die)


def _arm_due_times(point: str, die: Callable[[], NoReturn]) -> None:
    enqueue, enqueue_due = Jobs.enqueue, timers.enqueue_due

    async def deadly_enqueue(jobs: Jobs, connection: Any, tasks: Any) -> None:
        await enqueue(jobs, connection, tasks)
        if tasks and point == "due-taken":
            die()

    async def deadly_enqueue_due(connection: Any, jobs: Jobs) -> int:
        found = await enqueue_due(connection, jobs)
        if found and point == "due-queued":
            die()
        return found

    Jobs.enqueue = deadly_enqueue  # type: ignore[method-assign]
    timers.enqueue_due = deadly_enqueue_due


def _arm_call(point: str, die: Callable[[], NoReturn]) -> None:
    capture, commit = SandboxProcessor.capture, Journal.commit

    async def deadly_capture(processor: SandboxProcessor, request: Any) -> Any:
        if point == "before-call":
            die()
        answer = await capture(processor, request)
        if point == "after-call":
            die()
        return answer

    async def deadly_commit(journal: Journal, *given: Any, **named: Any) -> int:
        position = await commit(journal, *given, **named)
        events = [event for change in given[2] for event in change.events]
        if point == "call-recorded" and any(isinstance(event, PaymentCaptured) for event in events):
            die()
        return position

    SandboxProcessor.capture = deadly_capture  # type: ignore[method-assign]
    Journal.commit = deadly_commit  # type: ignore[method-assign, assignment]
