"""The fixtures of the tests' real Postgres, for the properties that need one."""

from tests.conftest import anyio_backend, databases, postgres_url, short_dir, template_database

__all__ = ["anyio_backend", "databases", "postgres_url", "short_dir", "template_database"]
