"""The short form of the programme that bills a merchant's year."""

from __future__ import annotations

import asyncio

import pytest
from campaigns.subscriptions.year import year
from tests.audit.auditing import audit_of, wrong_in

pytestmark = [pytest.mark.long]


def test_a_merchants_months_are_billed_as_they_were_due(database_url: str) -> None:
    assert asyncio.run(year(database_url, 12, 2)) == []
    assert wrong_in(audit_of(database_url)) == []
