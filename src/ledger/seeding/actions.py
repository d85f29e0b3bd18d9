"""The actions of a scenario's lines: registering a merchant, and the merchant's requests about its orders.

An action is a function in the table at the end, and parses its body as the HTTP interface does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.domain.merchants.settings import from_json
from ledger.domain.orders import events
from ledger.domain.rejections import DuplicateExternalId, InvalidField
from ledger.operations.context.inputs import OrderInput
from ledger.operations.merchants.registration import register_merchant
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import find_order
from ledger.seeding.context import Action, LineResult, RunningLine, payment_result
from ledger.seeding.payer_actions import PAYER_ACTIONS


async def _register(line: RunningLine) -> LineResult:
    """Registers a merchant with the settings of the body. A merchant that exists keeps its own settings."""
    settings, key = _settings(line.line.body), line.context.new_key()
    merchant, is_new = await register_merchant(
        line.ledger, line.line.merchant, key, settings=settings, merchant_id=line.merchant_id
    )
    if is_new:
        line.context.api_keys[merchant.merchant_id] = key.secret
    return LineResult.NEW if is_new else LineResult.KNOWN


async def _create(line: RunningLine) -> LineResult:
    """POST /v2/payment-orders. The same external id again, at a later time, is a further attempt to pay."""
    request = line.parsers.create(line.body, line.local_at)
    external_id = request.terms.external_id
    if request.payment is not None:
        request = replace(request, payment=line.with_fixed_id(request.payment, external_id))
    line.follow(external_id)
    try:
        return payment_result(await create_order(line.ledger, line.actor, request))
    except DuplicateExternalId:
        if await _has_run(line, request):
            return LineResult.KNOWN
        raise


async def _has_run(line: RunningLine, request: OrderInput) -> bool:
    """Returns whether an order that is closed by now was made, or paid, by this very line in an earlier run."""
    order = await find_order(line.ledger, line.merchant_id, request.terms.external_id)
    if request.payment is not None and request.payment.payment_id is not None:
        return order.has_payment(request.payment.payment_id)
    return order.terms.at == line.line.at


async def _charge(line: RunningLine) -> LineResult:
    """POST /v2/payment-orders/{order}/charge."""
    order = line.order
    request = line.with_fixed_id(line.parsers.charge(line.body, line.local_at), order)
    line.follow(order)
    return payment_result(await charge_order(line.ledger, line.actor, order, request))


async def _payment(line: RunningLine) -> LineResult:
    """POST /v2/payment-orders/{order}/payments."""
    order = line.order
    request = line.with_fixed_id(line.parsers.payment(line.body, line.local_at), order)
    line.follow(order)
    return payment_result(await add_payment(line.ledger, line.actor, order, request))


async def _refund(line: RunningLine) -> LineResult:
    """POST /v2/payment-orders/{order}/refund."""
    request = line.parsers.refund(line.body)
    if await line.find_unless_done(events.RefundRequested) is None:
        return LineResult.KNOWN
    await refund_order(line.ledger, line.actor, line.order, request)
    return LineResult.NEW


async def _cancel(line: RunningLine) -> LineResult:
    """POST /v2/payment-orders/{order}/cancel."""
    request = line.parsers.cancel(line.body)
    if await line.find_unless_done(events.CancellationRequested, events.OrderCancelled) is None:
        return LineResult.KNOWN
    await cancel_order(line.ledger, line.actor, line.order, request)
    return LineResult.NEW


async def _capture(line: RunningLine) -> LineResult:
    """POST /v2/payment-orders/{order}/capture."""
    request = line.parsers.capture(line.body)
    if await line.find_unless_done(events.CaptureRequested) is None:
        return LineResult.KNOWN
    await capture_order(line.ledger, line.actor, line.order, request)
    return LineResult.NEW


def _settings(body: msgspec.Raw) -> dict[str, Any]:
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise InvalidField("body", f"must be settings of a merchant: {error}") from None
    return from_json(members)


ACTIONS: Final[Mapping[str, Action]] = {
    "register": _register,
    "create": _create,
    "charge": _charge,
    "payment": _payment,
    "refund": _refund,
    "cancel": _cancel,
    "capture": _capture,
    **PAYER_ACTIONS,
}
