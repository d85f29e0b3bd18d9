"""What the fair queue relies on in procrastinate, whose job manager is no published interface.

A new release series of procrastinate may come in (pyproject.toml, requirements.lock) once these tests pass with it.
"""

import inspect

import pytest
from procrastinate import schema, worker
from procrastinate.jobs import Job
from procrastinate.manager import JobManager

COLUMNS = [  # what a job is made of, in the order in which the fair queue returns it
    "id",
    "status",
    "task_name",
    "priority",
    "lock",
    "queueing_lock",
    "args",
    "scheduled_at",
    "queue_name",
    "attempts",
    "worker_id",
]


def test_a_worker_fetches_each_job_through_the_method_that_is_replaced():
    assert list(inspect.signature(JobManager.fetch_job).parameters) == ["self", "queues", "worker_id"]
    assert "job_manager.fetch_job(" in inspect.getsource(worker.Worker)
    assert "self.connector = connector" in inspect.getsource(JobManager.__init__)


def test_a_job_is_made_of_a_row_of_its_table():
    row = dict.fromkeys(COLUMNS) | {"id": 1, "queue_name": "q", "task_name": "t", "args": {}, "status": "doing"}
    job = Job.from_row(row)
    assert (job.id, job.queue, job.task_name, job.status) == (1, "q", "t", "doing")


@pytest.mark.parametrize("column", COLUMNS)
def test_the_table_of_jobs_has_the_columns_that_are_read(column):
    table = schema.SchemaManager.get_schema().split("CREATE TABLE procrastinate_jobs (")[1].split(");")[0]
    assert column in [line.split()[0] for line in table.splitlines() if line.strip()]


def test_a_fetched_job_differs_from_one_that_waits_in_its_status_and_its_worker():
    """The fair queue has a statement of its own in place of this function, so a change of it has to be followed."""
    function = schema.SchemaManager.get_schema().split("FUNCTION procrastinate_fetch_job_v2(")[1]
    update = function.split("UPDATE procrastinate_jobs")[1].split("RETURNING")[0]
    assert " ".join(update.split()).startswith("SET status = 'doing', worker_id = p_worker_id FROM candidate")
