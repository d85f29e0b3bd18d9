"""The database of the tests that have one."""

from tests.operations.conftest import database_url, ledger, merchant, module_ledger, module_url

__all__ = ["database_url", "ledger", "merchant", "module_ledger", "module_url"]
