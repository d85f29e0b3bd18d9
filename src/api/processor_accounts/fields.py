"""What a request to connect an account contains, its parser, and the account that a path names.

Secret keys are no stored texts, and no error repeats one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_card_data
from api.decoding.types import UNSEARCHED, PositiveNumber
from api.errors import invalid, required
from api.fields.values import is_given, positive_amount
from api.http.request import ApiRequest
from api.operation import Json
from ledger.domain import streams
from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.methods import MethodLimit
from ledger.operations.processor_accounts.connect import ConnectInput
from ledger.processors.registry import AccountKeys

_NAME: Final = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)
_KEY: Final = re.compile(r"[!-~]{1,255}", re.ASCII)
_KEY_MAX: Final = 255
_METHODS_MAX: Final = 20
_PROCESSOR_MAX: Final = 32

_SecretText = Annotated[str, Meta(max_length=_KEY_MAX, extra_json_schema={"format": "password"}, extra=UNSEARCHED)]
_PublicText = Annotated[str, Meta(max_length=_KEY_MAX, extra=UNSEARCHED)]
_Currencies = Annotated[list[Literal["MXN", "USD"]], Meta(min_length=1, max_length=2)]
_Months = Annotated[list[Annotated[int, Meta(ge=2, le=99)]], Meta(max_length=20)]

ACCOUNT_NAME: Final[Json] = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The merchant's own name of the account, which never changes.",
    "schema": {"type": "string", "pattern": "^[a-z0-9-]{1,32}$"},
}


class AccountMethodLimit(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A method to which the account is limited. What is left out stays as the processor takes it."""

    type: Annotated[MethodType, Meta(description="The method.")]
    currencies: Annotated[
        _Currencies | None, Meta(description="The currencies in which it is taken.", examples=[["MXN"]])
    ] = None
    amount_min: Annotated[
        PositiveNumber | UnsetType, Meta(description="The least amount of a payment, in minor units.")
    ] = UNSET
    amount_max: Annotated[
        PositiveNumber | UnsetType, Meta(description="The greatest amount of a payment, in minor units.")
    ] = UNSET
    installments: Annotated[
        _Months | None, Meta(description="The numbers of monthly payments without interest; `[]` for none.")
    ] = None


class ConnectProcessorAccount(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to connect an account with a processor, or to change it. It has all of the account's keys."""

    processor: Annotated[
        Annotated[str, Meta(max_length=_PROCESSOR_MAX)] | None,
        Meta(description="Required. The processor of the account, which never changes.", examples=["stripe"]),
    ] = None
    secret_key: Annotated[
        _SecretText | None,
        Meta(
            description="The secret key of the account, stored sealed and never returned: a test key in the sandbox, a live "
            "key in production. Required, but not for `sandbox`, which has none."
        ),
    ] = None
    webhook_secrets: Annotated[
        Annotated[list[_SecretText], Meta(max_length=2)] | None,
        Meta(
            description="The secrets that sign the processor's messages: one, or two while one replaces the other. Stored "
            "sealed and never returned."
        ),
    ] = None
    publishable_key: Annotated[
        _PublicText | None,
        Meta(
            description="The key for the processor's script in the payer's browser. Everyone can read it. It must be one "
            "of the same account as `secretKey`."
        ),
    ] = None
    methods: Annotated[
        Annotated[list[AccountMethodLimit], Meta(min_length=1, max_length=_METHODS_MAX)] | None,
        Meta(description="The methods that the account is limited to. Absent: all that the processor takes there."),
    ] = None


_decode: Final = BodyDecoder(ConnectProcessorAccount)


def parse_connect(body: bytes, name: str) -> ConnectInput:
    """Returns what a body asks for about the account with this name. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        return _parsed(name, sent, errors)


def parse_account(
    name: str,
    *,
    processor: str,
    secret_key: str | None = None,
    webhook_secrets: Sequence[str] = (),
    publishable_key: str | None = None,
) -> ConnectInput:
    """Returns what a command asks for about the account with this name. Raises ApiError (400)."""
    sent = {"processor": processor, "webhookSecrets": webhook_secrets}
    optional = {"secretKey": secret_key, "publishableKey": publishable_key}
    sent |= {field: value for field, value in optional.items() if value is not None}
    return parse_connect(msgspec.json.encode(sent), name)


def _parsed(name: str, sent: ConnectProcessorAccount, errors: FieldErrors) -> ConnectInput:
    errors.check(_check_name, name)
    if not sent.processor:
        errors.add(required("processor"))
    errors.check(_key, sent.secret_key, "secretKey")
    for at, secret in enumerate(sent.webhook_secrets or ()):
        errors.check(_key, secret, f"webhookSecrets[{at}]")
    errors.check(_key, sent.publishable_key, "publishableKey")
    limits = None if sent.methods is None else _limits(sent.methods, errors)
    errors.refuse()
    assert sent.processor, "it was checked"
    return ConnectInput(
        processor=sent.processor,
        keys=AccountKeys(secret_key=sent.secret_key, webhook_secrets=tuple(dict.fromkeys(sent.webhook_secrets or ()))),
        publishable_key=sent.publishable_key,
        methods=limits,
    )


def new_account_name(request: ApiRequest) -> str:
    """Returns the name in the path of a request that may give it, which `parse_connect` checks."""
    return request.path_id("name") or ""


def account_name(request: ApiRequest) -> str:
    """Returns the account's name in the path. Raises ProcessorAccountNotFound for a text that is no name."""
    name = request.path_id("name") or ""
    if not _NAME.fullmatch(name):
        raise streams.PROCESSOR_ACCOUNTS.missing()
    return name


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise invalid("name", "must have 1 to 32 small letters, digits and hyphens", "INVALID_FORMAT")
    check_card_data(name, "name")


def _key(text: str | None, field: str) -> None:
    if text is not None and not _KEY.fullmatch(text):
        raise invalid(field, f"must have 1 to {_KEY_MAX} letters, digits and signs, without spaces", "INVALID_FORMAT")


def _limits(sent: Sequence[Any], errors: FieldErrors) -> list[MethodLimit]:
    """Returns the limits of a body. An entry that could not be decoded is no limit, or has no type: it is an error."""
    return [
        _limit(method, errors.inside(f"methods[{at}]"))
        for at, method in enumerate(sent)
        if method is not None and method.type is not UNSET
    ]


def _limit(sent: AccountMethodLimit, errors: FieldErrors) -> MethodLimit:
    return MethodLimit(
        type=sent.type,
        currencies=None if sent.currencies is None else tuple(dict.fromkeys(sent.currencies)),
        amount_min=errors.check(_amount, sent.amount_min, "amountMin"),
        amount_max=errors.check(_amount, sent.amount_max, "amountMax"),
        installments=None if sent.installments is None else tuple(sorted(set(sent.installments))),
    )


def _amount(sent: msgspec.Raw | UnsetType, field: str) -> Decimal | None:
    return positive_amount(sent, field) if is_given(sent) else None
