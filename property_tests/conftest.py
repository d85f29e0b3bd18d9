"""The fixtures of the tests' real Postgres, for the properties that need one."""

from hypothesis import settings
from tests.conftest import anyio_backend, databases, postgres_url, short_dir, template_database

__all__ = ["anyio_backend", "databases", "postgres_url", "short_dir", "template_database"]

# On a machine that others use too, an example may take any time.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
