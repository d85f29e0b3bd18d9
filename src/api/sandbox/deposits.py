"""POST {base}/sandbox/deposits: money that a payer sends to a reference, as the sandbox's bank reports it.

Never write to the order here. The bank books the deposit and reports it, the report goes through the inbox, and the
answer shows whether an order has recorded it.
"""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_card_data
from api.decoding.types import Id, PositiveNumber
from api.errors import conflicting, invalid
from api.fields.values import positive_amount, printable, require_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, SANDBOX, OperationSpec, codes_of
from api.response import ApiResponse
from api.sandbox.deliver import Reported, deliver_and_respond
from api.sandbox.processor import OWN, AccountName, sandbox_account
from ledger.domain.orders.decide.guards import require_multiple
from ledger.domain.rejections import AmountMismatch
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.clabe import is_clabe
from ledger.processors.messages import DepositReceived
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import Deposit, WrongAmount

_OWN_PREFIX: Final = "sbx_"
"""Begins the ids of the bank's own messages: a deposit with such an id would be taken for that message."""

_CLABE_DIGITS: Final = 18

_Digits = Annotated[str, Meta(min_length=1, max_length=40, extra_json_schema={"pattern": "^[0-9]+$"})]
_Clabe = Annotated[str, Meta(min_length=1, max_length=40, extra_json_schema={"pattern": "^[0-9]{18}$"})]


class SendDeposit(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A deposit to a reference."""

    clabe: Annotated[
        _Clabe | None, Meta(description="The CLABE that the money is sent to. Required unless reference is given.")
    ] = None
    reference: Annotated[_Digits | None, Meta(description="The cash reference that the money is paid for.")] = None
    amount: Annotated[PositiveNumber | UnsetType, Meta(description="Required. In minor units (cents).")] = UNSET
    message_id: Annotated[
        Id | None, Meta(description="The network's own id of the deposit. A deposit with the same id is a repetition.")
    ] = None
    sender_clabe: Annotated[
        _Clabe | None,
        Meta(description="The account that the transfer comes from; a refund is paid out to it. Absent: not named."),
    ] = None
    account: AccountName = OWN


_decode: Final = BodyDecoder(SendDeposit)


def _sent_to(sent: SendDeposit, errors: FieldErrors) -> str | None:
    """Returns the CLABE or reference. Returns None for a wrong one, and adds the reason to `errors`."""
    errors.check(_check_digits, sent.clabe, "clabe")
    errors.check(_check_digits, sent.reference, "reference")
    if sent.clabe is not None and not errors.has("clabe") and not is_clabe(sent.clabe):
        problem = (
            "must have 18 digits" if len(sent.clabe) != _CLABE_DIGITS else "has a wrong check digit: it is mistyped"
        )
        errors.add(invalid("clabe", problem, "INVALID_CLABE"))
    if errors.has("clabe") or errors.has("reference"):
        return None
    if sent.clabe is not None and sent.reference is not None and sent.clabe != sent.reference:
        errors.add(conflicting("clabe", "reference", "have different values: send one of them"))
    if sent.clabe is None and sent.reference is None:
        errors.add(invalid("clabe", "is required if reference is absent", "REQUIRED"))
    return sent.clabe or sent.reference


def _sender(sent: SendDeposit) -> str | None:
    if sent.sender_clabe is not None and not is_clabe(sent.sender_clabe):
        raise invalid(
            "senderClabe", "must have 18 digits, the last of which is the correct check digit", "INVALID_CLABE"
        )
    return sent.sender_clabe


def _check_digits(sent_to: str | None, field: str) -> None:
    if sent_to is not None and not (sent_to.isascii() and sent_to.isdigit()):
        raise invalid(field, "must consist of digits", "INVALID_FORMAT")


def _message_id(sent: SendDeposit) -> str | None:
    """Returns the network's own id of the deposit, or None if none was sent."""
    given = printable(sent.message_id, "messageId")
    if given is not None and given.startswith(_OWN_PREFIX):
        raise invalid("messageId", f"must not begin with {_OWN_PREFIX}", "INVALID_FORMAT")
    if given is not None:
        check_card_data(given, "messageId")
    return given


async def send(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/deposits: 200 once an order has recorded the money, 202 if no order has the reference."""
    body = await request.body(deps.body_limit)
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        sent_to, message_id = _sent_to(sent, errors), errors.check(_message_id, sent)
        amount = errors.check(positive_amount, sent.amount, "amount")
        sender = errors.check(_sender, sent)
    errors.check(require_whole, request.principal.settings, ("amount", amount))
    errors.refuse()
    assert sent_to is not None, "it was checked"
    assert amount is not None, "it was checked"

    async def report(seed: UUID) -> DepositReceived:
        deposit = Deposit(
            merchant_id=request.principal.merchant_id,
            message_id=message_id or f"{_OWN_PREFIX}msg_{seed.hex}",
            sent_to=sent_to,
            amount=amount,
            at=deps.ledger.clock.now(request.principal.merchant_id),
            sender_clabe=sender,
        )
        processor = await sandbox_account(deps, deposit.merchant_id, sent.account)
        await _require_multiple(deps, processor, deposit)
        try:
            return await processor.deposit(deposit)
        except WrongAmount as wrong:
            raise AmountMismatch(
                "The store accepts only the exact amount of the reference: send expectedAmount.",
                expectedAmount=wrong.expected,
            ) from None

    return await deliver_and_respond(deps, request, body, report)


async def _require_multiple(deps: Dependencies, processor: SandboxProcessor, deposit: Deposit) -> None:
    """Raises InvalidField on `amount` unless it is a multiple of the smallest amount that the order counts (section
    8.6).

    A real bank moves no smaller amounts either.
    """
    order_id = await processor.order_of(deposit.merchant_id, deposit.sent_to)
    if order_id is not None:
        order = await load_order(deps.ledger, deposit.merchant_id, order_id)
        require_multiple(order, deposit.amount)


SEND_DEPOSIT: Final = ScopedOperation(
    send,
    WRITE,
    OperationSpec(
        name="sendDeposit",
        summary="Send money to a reference",
        description="""
Acts as a payer: sends a transfer to a CLABE, in any amount, or pays cash at a store, which accepts only the exact
amount. A CLABE with a wrong check digit is refused, as a bank does. A repeated `messageId` is the same deposit and gets the first answer. Sandbox only.
""",
        tag=SANDBOX,
        parameters=(IDEMPOTENCY_KEY,),
        takes=SendDeposit,
        examples={
            "transfer": {
                "summary": "A transfer to a CLABE",
                "value": {"clabe": "646180110400000007", "amount": 150000, "messageId": "spei-2026-03-01-1"},
            },
            "sender": {
                "summary": "A transfer whose bank names the payer's account",
                "value": {
                    "clabe": "646180110400000007",
                    "amount": 150000,
                    "messageId": "spei-2026-03-01-2",
                    "senderClabe": "032180000118359719",
                },
            },
            "store": {"summary": "Cash at a store", "value": {"reference": "93000000000018", "amount": 150000}},
        },
        answers={
            200: ("An order has recorded the money.", Reported),
            202: ("No order has this reference. The deposit is stored, and the worker tries it again.", Reported),
        },
        codes=codes_of(
            ANY,
            BODY,
            IDEMPOTENT,
            {404: ("PROCESSOR_ACCOUNT_NOT_FOUND",), 409: ("AMOUNT_MISMATCH",), 503: ("PROCESSOR_UNAVAILABLE",)},
        ),
        replays=True,
    ),
)
