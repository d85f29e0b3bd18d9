"""What the sandbox's helpers take and answer.

The rule a stranger would break: these exist in the sandbox alone, and every description says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.http.endpoint import Operation
from api.openapi import examples, response_schemas
from api.openapi.operation import ANY, BODY, SANDBOX, OperationSpec, codes_of
from api.sandbox import clock, deposits, disputes, processor_mode, settlements
from api.sandbox.schemas import MoveClock, ReportDispute, SendDeposit, SetProcessorMode, Settle

OPERATIONS: Final[Mapping[Operation, OperationSpec]] = {
    clock.show: OperationSpec(
        name="getClock",
        summary="Read the merchant's clock",
        description="The merchant's present moment: real time, or ahead of it where the clock was moved. Sandbox only.",
        tag=SANDBOX,
        answers={200: ("The clock.", response_schemas.ClockReading)},
        codes=ANY,
    ),
    clock.move: OperationSpec(
        name="moveClock",
        summary="Move the merchant's clock",
        description="""
Lets time pass for this merchant alone, up to a moment or by a duration. What becomes due on the way is done in the order of
time, each at its own moment, and what that makes due as well. The answer comes when all of it has run, and then holds for
every further request. The clock never goes back. Sandbox only.
""",
        tag=SANDBOX,
        takes=MoveClock,
        examples=examples.MOVE_CLOCK,
        answers={200: ("Where the clock stands now, and how many jobs were run.", response_schemas.ClockMoved)},
        codes=codes_of(ANY, BODY, {409: ("CONCURRENT_UPDATE",)}),
    ),
    deposits.send: OperationSpec(
        name="sendDeposit",
        summary="Send money to a reference",
        description="""
As a payer would: a transfer to a CLABE, in any amount, or cash at a store, which takes the exact amount only. A repeated
`messageId` is the same deposit and gets the first answer. Sandbox only.
""",
        tag=SANDBOX,
        takes=SendDeposit,
        examples=examples.SEND_DEPOSIT,
        answers={
            200: ("An order has taken the money in.", response_schemas.Reported),
            202: ("No order knows the reference; the money is kept in mind.", response_schemas.Reported),
        },
        codes=codes_of(ANY, BODY, {409: ("AMOUNT_MISMATCH",), 503: ("PROCESSOR_UNAVAILABLE",)}),
    ),
    disputes.report: OperationSpec(
        name="reportDispute",
        summary="Contest a payment",
        description="As the payer's bank would: opens a dispute, or decides it. Sandbox only.",
        tag=SANDBOX,
        takes=ReportDispute,
        examples=examples.REPORT_DISPUTE,
        answers={
            200: ("The order has taken it in.", response_schemas.Reported),
            202: ("The order cannot make anything of it now; it is kept in mind.", response_schemas.Reported),
        },
        codes=codes_of(ANY, BODY, {404: ("PAYMENT_NOT_FOUND",), 409: ("INVALID_ORDER_STATE", "ORDER_NOT_REFUNDABLE")}),
    ),
    settlements.settle: OperationSpec(
        name="settle",
        summary="Settle payments",
        description="As an acquirer would: lists payments in a batch and pays them out, or refuses the batch. Sandbox only.",
        tag=SANDBOX,
        takes=Settle,
        examples=examples.SETTLE,
        answers={200: ("The lines of the batch.", response_schemas.Settled)},
        codes=codes_of(ANY, BODY, {404: ("PAYMENT_NOT_FOUND",), 409: ("INVALID_ORDER_STATE",)}),
    ),
    processor_mode.set_mode: OperationSpec(
        name="setProcessorMode",
        summary="Make the sandbox's processor fail or dawdle",
        description="""
For this merchant alone: `DOWN` answers the next payments 503 `PROCESSOR_UNAVAILABLE` before anything was sent, `SLOW` lets
them wait. Sandbox only.
""",
        tag=SANDBOX,
        takes=SetProcessorMode,
        examples=examples.SET_PROCESSOR_MODE,
        answers={200: ("The mode.", response_schemas.ProcessorMode)},
        codes=codes_of(ANY, BODY, {503: ("PROCESSOR_UNAVAILABLE",)}),
    ),
}
