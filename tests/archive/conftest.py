"""The application over a real database, with a store of files in its data directory."""

from tests.api.conftest import settings, store

__all__ = ["settings", "store"]
