"""Which provider and which store a process gets by its settings."""

import pytest

from ledger.invoicing.providers.production import ProductionProvider
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.settings import Settings
from ledger.wiring import open_ledger

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("given", "kind", "name"),
    [
        ({}, SandboxProvider, "sandbox"),
        ({"stamping_provider": "finkok", "stamping_user": "u", "stamping_secret": "s"}, ProductionProvider, "finkok"),
        ({"stamping_provider": "sw-sapien", "stamping_secret": "s"}, ProductionProvider, "sw-sapien"),
        ({"environment": "production", "stamping_provider": "sw-sapien", "stamping_secret": "s"}, ProductionProvider, "sw-sapien"),
        ({"environment": "production"}, None, None),
    ],
)  # fmt: skip
async def test_a_process_has_the_provider_of_its_settings(database_url, tmp_path, given, kind, name):
    settings = Settings(database_url=database_url, master_key="11" * 32, data_dir=tmp_path, **given)
    async with open_ledger(settings) as ledger:
        invoicing = ledger.invoicing
        assert invoicing
        assert (invoicing.provider and type(invoicing.provider)) == kind
        assert (invoicing.provider and invoicing.provider.capabilities.name) == name
        assert not (tmp_path / "files").exists(), "nothing is made before the first document"
