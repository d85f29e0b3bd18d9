"""When a job that failed is tried again, and when it is given up."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Final

from procrastinate import BaseRetryStrategy, RetryDecision
from procrastinate.jobs import Job

from ledger.back_off import back_off_s

ATTEMPTS_MAX: Final = 40
"""About five hours: longer than an outage that stays unnoticed."""
_PAUSE_MAX_S: Final = 600.0


class JobRetry(BaseRetryStrategy):
    """Retries after a second, two, four …, at most ten minutes, each time varied by up to half."""

    # procrastinate prescribes the parameters.
    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:  # noqa: ARG002
        """Returns when to try again; None after the last attempt."""
        if job.attempts + 1 >= ATTEMPTS_MAX:
            return None
        return RetryDecision(retry_at=next_attempt_at(job.attempts))


def next_attempt_at(attempts: int) -> datetime:
    """Returns when a task that has failed so many times before is tried again."""
    return datetime.now(UTC) + timedelta(seconds=back_off_s(attempts, _PAUSE_MAX_S) * random.uniform(0.5, 1.5))
