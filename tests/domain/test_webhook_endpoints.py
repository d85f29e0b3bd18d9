"""An endpoint: created, changed, its secret rotated, disabled, enabled and deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from msgspec.structs import replace
from tests.domain.builders import NOON
from tests.domain.scenario import given

from ledger.domain.rejections import WebhookEndpointLimitReached
from ledger.domain.webhooks.commands import (
    ChangeEndpoint,
    CreateEndpoint,
    DeleteEndpoint,
    DisableEndpoint,
    RotateSecret,
)
from ledger.domain.webhooks.events import (
    WebhookEndpointChanged,
    WebhookEndpointCreated,
    WebhookEndpointDeleted,
    WebhookEndpointDisabled,
    WebhookEndpointEnabled,
    WebhookSecretRotated,
)
from ledger.domain.webhooks.terms import DisabledReason, EndpointStatus, EndpointTerms, Resume

HOUR, DAY = timedelta(hours=1), timedelta(hours=24)
LATER = NOON + HOUR
ENDPOINT = UUID(int=9)
SECRETS = [UUID(int=n) for n in range(1, 8)]
TERMS = EndpointTerms(url="https://shop.example/hooks")
CREATED = WebhookEndpointCreated(endpoint_id=ENDPOINT, number=3, terms=TERMS, secret_id=SECRETS[0], at=NOON)
DISABLED = WebhookEndpointDisabled(endpoint_id=ENDPOINT, reason=DisabledReason.GONE, at=LATER)
DELETED = WebhookEndpointDeleted(endpoint_id=ENDPOINT, at=LATER)


def creating(**fields: Any) -> CreateEndpoint:
    known = {"endpoint_id": ENDPOINT, "number": 3, "terms": TERMS, "secret_id": SECRETS[0], "endpoints": 15, "at": NOON}
    return CreateEndpoint(**known | fields)


def rotated(n: int, **fields: Any) -> WebhookSecretRotated:
    at = NOON + n * HOUR
    return WebhookSecretRotated(
        endpoint_id=ENDPOINT, secret_id=SECRETS[n], **{"at": at, "previous_until": at + DAY} | fields
    )


def test_an_endpoint_is_created_unless_there_are_sixteen():
    endpoint = given().when(creating()).then(CREATED)
    assert (endpoint.status, endpoint.created_at, endpoint.terms) == (EndpointStatus.ENABLED, NOON, TERMS)
    given().when(creating(endpoints=16)).then_rejected(WebhookEndpointLimitReached)


def test_the_terms_that_are_given_change_and_the_others_stay():
    terms = EndpointTerms(url="https://other.example", events=("customer.*",))
    first = WebhookEndpointChanged(endpoint_id=ENDPOINT, terms=terms, at=LATER)
    given_terms = {"url": terms.url, "events": terms.events}
    endpoint = given(CREATED).when(ChangeEndpoint(terms=given_terms, at=LATER)).then(first)
    assert (endpoint.terms, endpoint.updated_at, endpoint.secret_id) == (terms, LATER, SECRETS[0])
    second = WebhookEndpointChanged(endpoint_id=ENDPOINT, terms=replace(terms, events=None), at=LATER)
    given(CREATED, first).when(ChangeEndpoint(terms={"events": None}, at=LATER)).then(second)
    given(CREATED).when(ChangeEndpoint(terms={"url": TERMS.url}, at=LATER)).then()


def test_the_secret_before_signs_along_for_a_day_of_real_time_or_not_at_all():
    command = RotateSecret(secret_id=SECRETS[1], expire_now=False, at=NOON, real_at=LATER)
    endpoint = given(CREATED).when(command).then(replace(rotated(1), at=NOON))
    assert endpoint.secrets_at(LATER + DAY - HOUR) == (SECRETS[1], SECRETS[0])
    assert endpoint.secrets_at(LATER + DAY) == (SECRETS[1],)
    command = RotateSecret(secret_id=SECRETS[2], expire_now=True, at=NOON + 2 * HOUR, real_at=NOON)
    endpoint = given(CREATED, rotated(1)).when(command).then(rotated(2, previous_until=None))
    assert endpoint.secrets_at(NOON) == (SECRETS[2],)


def test_after_several_rotations_each_secret_that_has_not_ended_signs_along_up_to_five():
    history = (CREATED, *(rotated(n) for n in range(1, 6)))
    at = NOON + 6 * HOUR
    command = RotateSecret(secret_id=SECRETS[6], expire_now=False, at=at, real_at=at)
    endpoint = given(*history).when(command).then(rotated(6))
    assert endpoint.secrets_at(at) == tuple(SECRETS[6:1:-1])
    assert endpoint.secrets_at(NOON + DAY + 4 * HOUR) == tuple(SECRETS[6:3:-1])


def test_an_endpoint_is_disabled_once_and_goes_on_where_the_request_says():
    endpoint = given(CREATED).when(DisableEndpoint(reason=DisabledReason.GONE, at=LATER)).then(DISABLED)
    assert (endpoint.status, endpoint.disabled_reason) == (EndpointStatus.DISABLED, DisabledReason.GONE)
    given(CREATED, DISABLED).when(DisableEndpoint(reason=DisabledReason.FAILING, at=LATER)).then()
    off = ChangeEndpoint(terms={}, status=EndpointStatus.DISABLED, at=LATER)
    given(CREATED).when(off).then(replace(DISABLED, reason=DisabledReason.MERCHANT))

    on = ChangeEndpoint(terms={}, status=EndpointStatus.ENABLED, after_sequence=7, at=LATER)
    now = WebhookEndpointEnabled(endpoint_id=ENDPOINT, resume=Resume.NOW, at=LATER, after_sequence=7)
    endpoint = given(CREATED, DISABLED).when(on).then(now)
    assert (endpoint.status, endpoint.version, endpoint.from_version, endpoint.after_sequence) == ("ENABLED", 3, 3, 7)
    missed = WebhookEndpointEnabled(endpoint_id=ENDPOINT, resume=Resume.MISSED, at=LATER)
    endpoint = given(CREATED, DISABLED).when(replace(on, resume=Resume.MISSED)).then(missed)
    assert (endpoint.status, endpoint.version, endpoint.from_version) == (EndpointStatus.ENABLED, 3, 1)
    given(CREATED).when(on).then()


def test_an_endpoint_is_not_disabled_for_what_its_receiver_before_answered():
    gone = DisableEndpoint(reason=DisabledReason.GONE, at=LATER, seen=1)
    given(CREATED).when(gone).then(DISABLED)
    changed = WebhookEndpointChanged(endpoint_id=ENDPOINT, terms=replace(TERMS, url="https://new.example"), at=LATER)
    given(CREATED, changed).when(gone).then()


def test_a_deleted_endpoint_is_deleted_once_and_not_disabled():
    assert given(CREATED).when(DeleteEndpoint(at=LATER)).then(DELETED).is_deleted
    given(CREATED, DELETED).when(DeleteEndpoint(at=LATER)).then()
    given(CREATED, DELETED).when(DisableEndpoint(reason=DisabledReason.GONE, at=LATER)).then()
