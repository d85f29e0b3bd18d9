"""A test issuer's certificate, made once, and the simulated stamping provider over a fresh database."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.invoicing import documents

from ledger.invoicing.certificates import generate_csd, load_signer
from ledger.invoicing.contract import CancelRequest, LookUp, StampRequest, StatusRequest
from ledger.invoicing.providers.sandbox import SandboxProvider


@pytest.fixture(scope="session")
def csd():
    return generate_csd(documents.RFC, documents.LEGAL_NAME, documents.NUMBER)


@pytest.fixture(scope="session")
def signer(csd):
    return load_signer(csd)


@pytest.fixture
async def provider(database_url):
    provider = SandboxProvider(database_url)
    yield provider
    await provider.stop()


def deadline(seconds=60):
    return datetime.now(UTC) + timedelta(seconds=seconds)


def to_stamp(xml, seconds=60, **ids):
    return StampRequest(**(documents.keys() | ids), xml=xml, deadline_at=deadline(seconds))


def to_look_up(asked, **given):
    return LookUp(
        merchant_id=asked.merchant_id, document_id=asked.document_id, xml=asked.xml, deadline_at=deadline(), **given
    )


def to_cancel(asked, stamped, signer, motive="02", **given):
    return CancelRequest(
        merchant_id=asked.merchant_id,
        document_id=asked.document_id,
        fiscal_uuid=stamped.fiscal_uuid,
        xml=stamped.xml,
        motive=motive,
        signer=signer,
        deadline_at=deadline(),
        **given,
    )


def about(asked, stamped):
    return StatusRequest(
        merchant_id=asked.merchant_id,
        document_id=asked.document_id,
        fiscal_uuid=stamped.fiscal_uuid,
        xml=stamped.xml,
        deadline_at=deadline(),
    )
