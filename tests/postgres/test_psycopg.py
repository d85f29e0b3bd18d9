"""What a transaction in one send relies on in psycopg, besides its published interface.

A new release series of psycopg may come in (pyproject.toml, requirements.in) once these tests pass with it.
"""

import inspect

import psycopg
import pytest
from psycopg import generators
from psycopg.adapt import Transformer
from psycopg.pq import PGconn

PGCONN = ("enter_pipeline_mode", "exit_pipeline_mode", "send_query_prepared", "pipeline_sync", "status")


@pytest.mark.parametrize("name", ["send", "fetch_many"])
def test_a_generator_takes_the_connection_alone(name):
    assert list(inspect.signature(getattr(generators, name)).parameters) == ["pgconn"]


def test_a_generator_waits_by_yielding():
    assert inspect.isgeneratorfunction(generators._send)
    assert inspect.isgeneratorfunction(generators._fetch_many)


@pytest.mark.parametrize("name", PGCONN)
def test_a_connection_of_libpq_has_what_it_had(name):
    assert hasattr(PGconn, name)


def test_results_are_loaded_by_a_transformer():
    for method in ("set_pgresult", "load_rows"):
        assert callable(getattr(Transformer, method))


def test_an_asynchronous_connection_waits_for_a_generator_under_its_lock():
    assert "gen" in inspect.signature(psycopg.AsyncConnection.wait).parameters
    assert "self.lock = " in inspect.getsource(psycopg.AsyncConnection.__init__)
