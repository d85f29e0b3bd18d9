"""A job as the queue stores it: the tasks of one merchant in one lane, and the lock of a task that is alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from procrastinate.jobs import Job

from ledger.background.effects import EnqueueJob
from ledger.background.scheduler.lanes import lane_of, queue_of

TASK: Final = "ledger.due"
"""The name of procrastinate's only task."""


def job_of(merchant_id: UUID, tasks: Sequence[EnqueueJob], at: datetime | None = None) -> Job:
    """Returns a job. Jobs with one task each about the same stream run one after another, in the order of due times.

    The work of one lane on a stream waits for none of another: a merchant's lanes are independent.
    """
    rows: Any = [[task.kind, str(task.stream_id), str(task.payment_id), task.due_at.isoformat()] for task in tasks]
    stream_id, kind = str(tasks[0].stream_id), tasks[0].kind
    return Job(
        queue=queue_of(merchant_id, kind),
        lock=stream_id + lane_of(kind) if len(tasks) == 1 else None,
        queueing_lock=None,
        task_name=TASK,
        task_kwargs={"merchant_id": str(merchant_id), "things": rows},
        scheduled_at=at,
    )


def task_of(row: Sequence[str]) -> EnqueueJob:
    """Returns a task of a job as it was enqueued."""
    kind, stream_id, payment_id, due_at = row
    return EnqueueJob(kind, UUID(stream_id), UUID(payment_id), datetime.fromisoformat(due_at))
