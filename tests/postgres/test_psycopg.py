"""What the pipeline relies on in psycopg, besides its published interface.

A new release series of psycopg may come in (pyproject.toml, requirements.lock) once these tests pass with it.
"""

import pytest
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, PGconn

PGCONN = (
    "consume_input", "enter_pipeline_mode", "finish", "flush", "get_result", "is_busy", "pipeline_sync", "send_prepare",
    "send_query_prepared", "socket", "status",
)  # fmt: skip


@pytest.mark.parametrize("name", PGCONN)
def test_a_connection_of_libpq_has_what_it_had(name):
    assert hasattr(PGconn, name)


@pytest.mark.parametrize("name", ["COMMAND_OK", "FATAL_ERROR", "PIPELINE_SYNC"])
def test_a_result_of_libpq_has_the_status_that_it_had(name):
    assert name in ExecStatus.__members__


def test_results_are_loaded_by_a_transformer():
    for method in ("set_pgresult", "load_rows"):
        assert callable(getattr(Transformer, method))
