"""Merchants: registration, settings, keys."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import get_args
from uuid import UUID

import msgspec
import pytest
from msgspec import Raw, to_builtins
from tests.domain.builders import NOON
from tests.domain.scenario import given

from ledger.cli.output import written
from ledger.domain.merchants.commands import (
    ChangeSettings,
    CloseMerchant,
    IssueApiKey,
    RegisterMerchant,
    RenameMerchant,
    RevokeApiKey,
    RotateApiKey,
)
from ledger.domain.merchants.decide import KEYS_MAX, decide_issue
from ledger.domain.merchants.events import (
    ApiKeyIssued,
    ApiKeyRevoked,
    ApiKeyRotated,
    MerchantClosed,
    MerchantEvent,
    MerchantRegistered,
    MerchantRenamed,
    MerchantSettingsChanged,
)
from ledger.domain.merchants.evolve import evolve
from ledger.domain.merchants.settings import SETTINGS, CardEntry, UnknownFields, from_json, from_texts
from ledger.domain.orders.invoices.terms import InvoiceFolio, InvoiceTrigger, PueRefund
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import (
    ActingKeyEnded,
    ApiKeyLimitReached,
    ApiKeyNotActive,
    ApiKeyNotFound,
    InsufficientScope,
    InvalidField,
    LastManagingKey,
    MerchantIsClosed,
)

MERCHANT, FIRST, SECOND, THIRD = (UUID(int=n) for n in (1, 2, 3, 4))
REGISTERED = MerchantRegistered(merchant_id=MERCHANT, name="Café Tacuba", at=NOON)
CLOSED = MerchantClosed(merchant_id=MERCHANT, at=NOON)


def change(**settings):
    return ChangeSettings(at=NOON, **settings)


def changed(**settings):
    return MerchantSettingsChanged(merchant_id=MERCHANT, at=NOON, **settings)


def issue(key_id=FIRST, **details):
    return IssueApiKey(key_id=key_id, key_hash="ab" * 32, hint="9f3a", at=NOON, real_at=NOON, **details)


def revoke(key_id, acting=None, real_at=NOON):
    return RevokeApiKey(key_id=key_id, at=NOON, real_at=real_at, acting_key_id=acting)


def rotate(old=FIRST, new=SECOND, **details):
    return RotateApiKey(
        replaced_id=old,
        replaced_until=NOON + timedelta(days=1),
        key_id=new,
        key_hash="ab" * 32,
        hint="9f3a",
        at=NOON,
        real_at=NOON,
        **details,
    )


def rotated(old=FIRST, new=SECOND, until=NOON + timedelta(days=1)):
    return ApiKeyRotated(merchant_id=MERCHANT, key_id=old, replaced_by=new, expires_at=until, at=NOON)


def revoked(key_id=FIRST):
    return ApiKeyRevoked(merchant_id=MERCHANT, key_id=key_id, at=NOON)


def issued(key_id=FIRST, **details):
    return ApiKeyIssued(merchant_id=MERCHANT, key_id=key_id, key_hash="ab" * 32, hint="9f3a", at=NOON, **details)


def test_a_new_merchant_has_the_default_settings():
    command = RegisterMerchant(merchant_id=MERCHANT, name="  Café Tacuba ", at=NOON)
    merchant = given().when(command).then(REGISTERED)
    published = {
        "surchargeRate": None,
        "surchargeMethods": ("CARD",),
        "timeZone": "America/Mexico_City",
        "paymentMethods": ("CARD", "SPEI", "PAYCASH", "CIE_CASH_NET"),
        "requireMerchantHeader": False,
        "requestsPerMinute": None,
        "requestsPerSecond": None,
        "captureDelaySeconds": 5,
        "invoiceTrigger": "FIRST_CAPTURE",
        "refundOverpayment": False,
        "fractionalAmounts": True,
        "exchangeRate": None,
        "receiptDueDay": 5,
        "reminderDays": (3, 0),
        "invoiceByDefault": False,
        "alertEmail": None,
    }
    assert published.items() <= to_builtins(merchant.settings).items()


@pytest.mark.parametrize("name", ["", "   ", "x" * 256, "Café\x00", "two\nlines"])
def test_a_merchant_needs_a_printable_name(name):
    command = RegisterMerchant(merchant_id=MERCHANT, name=name, at=NOON)
    given().when(command).then_rejected(InvalidField, field="name")


def test_a_merchant_is_renamed_also_when_it_is_closed():
    rename, renamed = (
        RenameMerchant(name=" La Parroquia ", at=NOON),
        MerchantRenamed(merchant_id=MERCHANT, name="La Parroquia", at=NOON),
    )
    assert given(REGISTERED).when(rename).then(renamed).name == "La Parroquia"
    given(REGISTERED, CLOSED).when(rename).then(renamed)
    given(REGISTERED, renamed).when(rename).then()
    given(REGISTERED).when(RenameMerchant(name="two\nlines", at=NOON)).then_rejected(InvalidField, field="name")


def test_a_closed_merchant_has_no_valid_key_and_gets_none():
    merchant = (
        given(REGISTERED, issued(), revoked(), issued(SECOND))
        .when(CloseMerchant(at=LATER))
        .then(MerchantClosed(merchant_id=MERCHANT, at=LATER))
    )
    assert (merchant.closed_at, [key.revoked_at for key in merchant.keys]) == (LATER, [NOON, LATER])
    closed = given(REGISTERED, issued(), CLOSED)
    closed.when(CloseMerchant(at=LATER)).then()
    closed.when(issue(SECOND)).then_rejected(MerchantIsClosed)
    closed.when(issue(SECOND, acting_key_id=FIRST)).then_rejected(ActingKeyEnded)
    closed.when(rotate()).then_rejected(ApiKeyNotActive)


def test_only_settings_that_differ_are_changed():
    merchant = (
        given(REGISTERED)
        .when(change(requests_per_minute=600, capture_delay_seconds=5))
        .then(changed(requests_per_minute=600))
    )
    assert (merchant.settings.requests_per_minute, merchant.settings.requests_per_second) == (600, None)
    given(REGISTERED).when(change()).then()


def test_a_surcharge_is_switched_on_and_off():
    on = change(surcharge_rate=Decimal("3.50"), surcharge_methods=(MethodType.CARD, MethodType.SPEI))
    recorded = changed(surcharge_rate=Decimal("3.5"), surcharge_methods=("CARD", "SPEI"))
    merchant = given(REGISTERED).when(on).then(recorded)
    assert merchant.settings.surcharge_rate == Decimal("3.5")
    assert merchant.settings.surcharge_methods == (MethodType.CARD, MethodType.SPEI)
    assert all(isinstance(method, MethodType) for method in merchant.settings.surcharge_methods)
    for off in (None, Decimal(0)):
        merchant = given(REGISTERED, recorded).when(change(surcharge_rate=off)).then(changed(surcharge_rate=None))
        assert merchant.settings.surcharge_rate is None


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("surchargeRate", {"surcharge_rate": Decimal(50)}),
        ("surchargeRate", {"surcharge_rate": Decimal(-1)}),
        ("surchargeRate", {"surcharge_rate": Decimal("NaN")}),
        ("surchargeRate", {"surcharge_rate": Decimal("3.00001")}),
        ("surchargeMethods", {"surcharge_methods": ()}),
        ("paymentMethods", {"payment_methods": ()}),
        ("requestsPerMinute", {"requests_per_minute": -1}),
        ("requestsPerSecond", {"requests_per_second": 1_000_001}),
        ("captureDelaySeconds", {"capture_delay_seconds": 604_801}),
        ("exchangeRate", {"exchange_rate": Decimal(0)}),
        ("exchangeRate", {"exchange_rate": Decimal("1000000.000001")}),
        ("exchangeRate", {"exchange_rate": Decimal("17.0000001")}),
        ("exchangeRate", {"exchange_rate": Decimal("Infinity")}),
        ("receiptDueDay", {"receipt_due_day": 0}),
        ("receiptDueDay", {"receipt_due_day": 29}),
        ("alertEmail", {"alert_email": "it@shop"}),
        ("alertEmail", {"alert_email": "a@b.mx\nBcc: c@d.mx"}),
        ("alertEmail", {"alert_email": f"{'a' * 64}@{'b.' * 95}mx"}),
    ],
)
def test_a_setting_out_of_bounds_is_refused_by_its_name(name, settings):
    given(REGISTERED).when(change(**settings)).then_rejected(InvalidField, field=name)


def test_an_operator_writes_settings_as_text():
    texts = {
        "surchargeRate": "3.5",
        "surchargeMethods": "card, spei",
        "timeZone": "America/Tijuana",
        "paymentMethods": "CARD",
        "requireMerchantHeader": "true",
        "requestsPerMinute": "0",
        "requestsPerSecond": "50",
        "captureDelaySeconds": "30",
        "invoiceTrigger": "creation",
        "refundOverpayment": "on",
        "fractionalAmounts": "no",
        "exchangeRate": "17.2500",
        "receiptDueDay": "17",
        "reminderDays": "0, 7,0",
        "pueRefund": "cancel_in_month",
        "unknownFields": "reject",
        "invoiceByDefault": "yes",
        "invoiceSeries": "WEB",
        "invoiceFolio": "counter",
        "cardEntry": "tokens",
        "alertEmail": " it@shop.example.com ",
    }
    merchant = (
        given(REGISTERED)
        .when(change(**from_texts(texts)))
        .then(
            changed(
                surcharge_rate=Decimal("3.5"),
                surcharge_methods=("CARD", "SPEI"),
                time_zone="America/Tijuana",
                payment_methods=("CARD",),
                require_merchant_header=True,
                requests_per_minute=0,
                requests_per_second=50,
                capture_delay_seconds=30,
                invoice_trigger=InvoiceTrigger.CREATION,
                refund_overpayment=True,
                fractional_amounts=False,
                exchange_rate=Decimal("17.25"),
                receipt_due_day=17,
                reminder_days=(7, 0),
                pue_refund=PueRefund.CANCEL_IN_MONTH,
                unknown_fields=UnknownFields.REJECT,
                invoice_by_default=True,
                invoice_series="WEB",
                invoice_folio=InvoiceFolio.COUNTER,
                card_entry=CardEntry.TOKENS,
                alert_email="it@shop.example.com",
            )
        )
    )
    assert to_builtins(merchant.settings)["surchargeRate"] == "3.5"
    assert from_texts({"invoiceSeries": "none"}) == {"invoice_series": None}
    assert from_texts({"surchargeRate": "null"}) == {"surcharge_rate": None}
    assert from_texts({"exchangeRate": "none"}) == {"exchange_rate": None}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_every_setting_is_written_and_read_back_in_each_form(setting):
    value = 600 if setting.kind.operators_only else setting.default  # no limit is the default, which none can set
    json = msgspec.json.encode(value)
    assert from_texts({setting.name: written(value)}) == {setting.field: value}
    assert from_json({setting.name: Raw(json)}) == {setting.field: value}
    assert setting.kind.allows(value)
    event = changed(**{setting.field: msgspec.json.decode(json, type=setting.stored)})
    assert msgspec.json.decode(msgspec.json.encode(event), type=MerchantSettingsChanged) == event
    assert getattr(evolve(evolve(None, REGISTERED), event).settings, setting.field) == value


def test_a_program_writes_settings_as_json():
    members = {"surchargeRate": "3.50", "paymentMethods": ["card", "SPEI"], "reminderDays": [0, 7, 0]}
    raw = {name: Raw(msgspec.json.encode(value)) for name, value in members.items()}
    assert from_json(raw) == {
        "surcharge_rate": Decimal("3.50"),
        "payment_methods": (MethodType.CARD, MethodType.SPEI),
        "reminder_days": (7, 0),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("surcharge", "3"), ("surchargeRate", "lots"), ("paymentMethods", "CARD"), ("receiptDueDay", "5")],
)
def test_json_that_is_not_a_setting_is_refused_by_its_name(name, value):
    with pytest.raises(InvalidField) as refused:
        from_json({name: Raw(msgspec.json.encode(value))})
    assert refused.value.field == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("surcharge", "3"),
        ("surchargeRate", "three"),
        ("surchargeRate", "1e2"),
        ("surchargeMethods", "CARD,BITCOIN"),
        ("timeZone", "America/Mexcio"),
        ("timeZone", "America"),
        ("timeZone", "../../etc/passwd"),
        ("requireMerchantHeader", "maybe"),
        ("requestsPerMinute", "-1"),
        ("requestsPerMinute", "10.5"),
        ("invoiceTrigger", "NEVER"),
        ("exchangeRate", "-1"),
        ("exchangeRate", "1e1"),
        ("receiptDueDay", "last"),
    ],
)
def test_a_text_that_is_not_a_setting_is_refused_by_its_name(name, text):
    with pytest.raises(InvalidField) as refused:
        from_texts({name: text})
    assert refused.value.facts == {"field": name}


def test_two_keys_can_be_valid_at_once():
    merchant = given(REGISTERED, issued()).when(issue(SECOND, name="next")).then(issued(SECOND, name="next"))
    assert [key.revoked_at for key in merchant.keys] == [None, None]
    merchant = (
        given(REGISTERED, issued(), issued(SECOND))
        .when(revoke(FIRST))
        .then(ApiKeyRevoked(merchant_id=MERCHANT, key_id=FIRST, at=NOON))
    )
    assert [key.revoked_at for key in merchant.keys] == [NOON, None]


def test_a_key_keeps_what_it_was_issued_with():
    details = {"name": "backend", "scopes": ("orders:read",), "expires_at": NOON + timedelta(days=1)}
    merchant = given(REGISTERED).when(issue(**details)).then(issued(**details))
    (key,) = merchant.keys
    assert (key.key_hash, key.hint, key.name, key.scopes) == ("ab" * 32, "9f3a", "backend", ("orders:read",))


def test_a_key_cannot_expire_before_it_is_issued():
    given(REGISTERED).when(issue(expires_at=NOON)).then_rejected(InvalidField, field="expiresAt")


LATER = NOON + timedelta(days=30)
READS = {"scopes": ("orders:read",)}
MANAGES = {"scopes": ("keys", "orders:read")}


@pytest.mark.parametrize("name", ["", "x" * 256, "two\nlines"])
def test_everything_that_is_wrong_with_a_new_key_is_refused_at_once(name):
    with pytest.raises(InvalidField) as refused:
        decide_issue(evolve(None, REGISTERED), issue(name=name, expires_at=NOON))
    assert [refused.value.field, *(other.field for other in refused.value.others)] == ["name", "expiresAt"]


def test_a_key_gives_no_scope_that_it_lacks():
    limited = given(REGISTERED, issued(**MANAGES))
    limited.when(issue(SECOND, acting_key_id=FIRST, **READS)).then(issued(SECOND, **READS))
    limited.when(issue(SECOND, acting_key_id=FIRST, scopes=("keys", "settings"))).then_rejected(InsufficientScope)
    limited.when(issue(SECOND, acting_key_id=FIRST)).then_rejected(InsufficientScope)  # without scopes: all of them
    given(REGISTERED, issued()).when(issue(SECOND, acting_key_id=FIRST)).then(issued(SECOND))


def test_a_key_gives_no_validity_beyond_its_own():
    passing = given(REGISTERED, issued(expires_at=LATER))
    passing.when(issue(SECOND, acting_key_id=FIRST, expires_at=LATER)).then(issued(SECOND, expires_at=LATER))
    for longer in (None, LATER + timedelta(seconds=1)):
        command = issue(SECOND, acting_key_id=FIRST, expires_at=longer)
        passing.when(command).then_rejected(InvalidField, field="expiresAt")


def test_a_key_that_ended_issues_rotates_and_revokes_nothing_more():
    expired = issued(expires_at=NOON)
    for ended in ((issued(), revoked()), (expired,)):
        context = given(REGISTERED, *ended, issued(THIRD))
        for command in (issue(SECOND, acting_key_id=FIRST), rotate(THIRD, acting_key_id=FIRST), revoke(THIRD, FIRST)):
            context.when(command).then_rejected(ActingKeyEnded)


def test_a_key_expires_by_real_time_also_where_the_merchants_clock_is_ahead():
    command = IssueApiKey(
        key_id=FIRST, key_hash="ab" * 32, hint="9f3a", at=LATER, real_at=NOON, expires_at=NOON + timedelta(hours=1)
    )
    given(REGISTERED).when(command).then(
        ApiKeyIssued(
            merchant_id=MERCHANT,
            key_id=FIRST,
            key_hash="ab" * 32,
            hint="9f3a",
            at=LATER,
            expires_at=NOON + timedelta(hours=1),
        )
    )


def test_a_rotated_key_is_replaced_by_one_like_it_and_expires():
    details = {"name": "backend", "scopes": ("keys",)}
    merchant = given(REGISTERED, issued(**details)).when(rotate()).then(issued(SECOND, **details), rotated())
    old, new = merchant.keys
    assert (old.replaced_by, old.expires_at) == (SECOND, NOON + timedelta(days=1))
    assert (new.replaced_by, new.expires_at) == (None, None)


def test_a_rotation_never_lengthens_the_old_key():
    soon = NOON + timedelta(hours=1)
    given(REGISTERED, issued(expires_at=soon)).when(rotate(expires_at=LATER, name="next")).then(
        issued(SECOND, name="next", expires_at=LATER), rotated(until=soon)
    )


def test_a_key_that_ended_or_is_unknown_cannot_be_rotated():
    given(REGISTERED, issued(), revoked()).when(rotate()).then_rejected(ApiKeyNotActive)
    given(REGISTERED, issued(expires_at=NOON)).when(rotate()).then_rejected(ApiKeyNotActive)
    given(REGISTERED, issued()).when(rotate(THIRD)).then_rejected(ApiKeyNotFound)


def test_a_key_rotates_none_that_may_do_more():
    keys = given(REGISTERED, issued(), issued(THIRD, **MANAGES))
    keys.when(rotate(acting_key_id=THIRD)).then_rejected(InsufficientScope)
    keys.when(rotate(THIRD, acting_key_id=THIRD)).then(issued(SECOND, **MANAGES), rotated(THIRD))
    passing = given(REGISTERED, issued(), issued(THIRD, expires_at=LATER))
    passing.when(rotate(acting_key_id=THIRD)).then_rejected(InvalidField, field="expiresAt")


def test_the_last_key_that_manages_keys_is_not_revoked_by_a_request():
    for others in (
        (),
        (issued(SECOND, **READS),),
        (issued(SECOND, expires_at=NOON),),
        (issued(SECOND), revoked(SECOND)),
    ):
        keys = given(REGISTERED, issued(), *others)
        keys.when(revoke(FIRST, FIRST)).then_rejected(LastManagingKey)
        keys.when(revoke(FIRST)).then(revoked())  # an operator can
    given(REGISTERED, issued(), issued(SECOND)).when(revoke(FIRST, FIRST)).then(revoked())


def test_no_request_leaves_a_merchant_without_a_key_that_can_make_all_others():
    in_seconds = NOON + timedelta(seconds=2)
    only_passing = given(REGISTERED, issued(), issued(SECOND, expires_at=in_seconds))
    only_passing.when(revoke(FIRST, FIRST)).then_rejected(LastManagingKey)
    only_keys = given(REGISTERED, issued(), issued(SECOND, **MANAGES))
    only_keys.when(revoke(FIRST, SECOND)).then_rejected(LastManagingKey)
    only_one = given(REGISTERED, issued())
    only_one.when(rotate(acting_key_id=FIRST, expires_at=in_seconds)).then_rejected(LastManagingKey)
    only_one.when(rotate(expires_at=in_seconds)).then(issued(SECOND, expires_at=in_seconds), rotated())


def test_a_merchant_whose_keys_all_end_soon_still_revokes_one_of_them():
    in_seconds = NOON + timedelta(seconds=2)
    keys = given(REGISTERED, issued(expires_at=in_seconds), issued(SECOND, expires_at=in_seconds))
    keys.when(revoke(FIRST, SECOND)).then(revoked())


def test_a_key_of_some_scopes_does_not_revoke_the_last_one_of_all_that_ends_today():
    tonight = NOON + timedelta(hours=10)
    keys = given(REGISTERED, issued(expires_at=tonight), issued(SECOND, **MANAGES))
    keys.when(revoke(FIRST, SECOND)).then_rejected(LastManagingKey)


def test_keys_of_some_scopes_are_replaced_by_one_that_has_them_all():
    customers = {"scopes": ("customers:read",)}
    both = {"scopes": (*MANAGES["scopes"], *customers["scopes"])}
    keys = given(REGISTERED, issued(**MANAGES), issued(SECOND, **customers), issued(THIRD, **both))
    keys.when(revoke(FIRST, FIRST)).then(revoked())
    keys.when(revoke(THIRD, THIRD)).then_rejected(LastManagingKey)


def test_a_merchant_has_a_bounded_number_of_valid_keys():
    keys = [issued(UUID(int=1000 + n), expires_at=LATER) for n in range(KEYS_MAX)]
    full = given(REGISTERED, *keys)
    full.when(issue()).then_rejected(ApiKeyLimitReached)
    full.when(rotate(UUID(int=1000))).then_rejected(ApiKeyLimitReached)
    given(REGISTERED, *keys, revoked(UUID(int=1000))).when(issue()).then(issued())


def test_an_unknown_key_cannot_be_revoked():
    given(REGISTERED, issued()).when(revoke(SECOND)).then_rejected(ApiKeyNotFound)


def test_every_event_is_folded():
    assert set(get_args(MerchantEvent)) == {
        MerchantRegistered,
        MerchantRenamed,
        MerchantClosed,
        MerchantSettingsChanged,
        ApiKeyIssued,
        ApiKeyRevoked,
        ApiKeyRotated,
    }
