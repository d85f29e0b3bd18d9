"""Timers that come due become jobs, and jobs run until they succeed.

In reading order:

- `timers`: turns due timers into jobs. `jobs`: the queue of jobs, and what runs them. `stored_jobs`: a job's row.
  `fair_queue`: which job is next. `lanes`: the queues of a merchant. `retry_policy`: when a failed job runs again.
- `failed_jobs`: jobs that failed, for operators, and the later attempts of those that were given up.
"""
