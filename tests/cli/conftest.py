"""Commands run on an installation of the sandbox, like scenarios."""

from tests.seeding.conftest import ledger, log, settings, write

__all__ = ["ledger", "log", "settings", "write"]
