"""Card payments on the fake of Stripe, driven by the official client: what Stripe's documentation promises of each call."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import stripe
from tests.campaigns.fake_stripe.conftest import Fake

CARD: dict[str, Any] = {"amount": 25_000, "currency": "mxn", "payment_method_types": ["card"]}


def paid(
    client: stripe.StripeClient, card: str = "pm_card_visa", *, options: Any = None, **more: Any
) -> stripe.PaymentIntent:
    return client.v1.payment_intents.create({**CARD, "payment_method": card, "confirm": True, **more}, options)


def keyed(key: str) -> dict[str, Any]:
    return {"idempotency_key": key}


def test_a_card_is_authorised_captured_in_part_and_refunded(
    fake: Fake, account: str, client: stripe.StripeClient
) -> None:
    made = client.v1.payment_intents.create({**CARD, "capture_method": "manual", "metadata": {"order": "7"}})
    assert (made.status, made.amount, made.latest_charge) == ("requires_payment_method", 25_000, None)
    held = client.v1.payment_intents.confirm(made.id, {"payment_method": "pm_card_mx", "expand": ["latest_charge"]})
    assert (held.status, held.amount_capturable) == ("requires_capture", 25_000)
    charge: Any = held.latest_charge
    assert charge.payment_method_details.card.capture_before > time.time()
    captured = client.v1.payment_intents.capture(made.id, {"amount_to_capture": 20_000})
    assert (captured.status, captured.amount_received, captured.amount_capturable) == ("succeeded", 20_000, 0)
    refund = client.v1.refunds.create({"payment_intent": made.id, "amount": 5_000, "metadata": {"refund": "r1"}})
    assert (refund.status, refund.amount, refund.metadata["refund"]) == ("succeeded", 5_000, "r1")
    with pytest.raises(stripe.InvalidRequestError) as refused:
        client.v1.refunds.create({"payment_intent": made.id, "amount": 15_001})
    assert "greater than unrefunded amount on charge ($150.00)" in str(refused.value)
    client.v1.refunds.create({"charge": charge.id})
    with pytest.raises(stripe.InvalidRequestError) as again:
        client.v1.refunds.create({"charge": charge.id})
    assert again.value.code == "charge_already_refunded"
    moved = [(line.moved, line.amount) for line in fake.lines(account) if line.moved]
    assert moved == [
        ("AUTHORIZED", 25_000),
        ("CAPTURED", 20_000),
        ("RELEASED", 5_000),
        ("REFUNDED", 5_000),
        ("REFUNDED", 15_000),
    ]


def test_a_payment_is_cancelled_before_it_is_paid_and_never_after(client: stripe.StripeClient) -> None:
    held = paid(client, capture_method="manual")
    assert client.v1.payment_intents.cancel(held.id, {"cancellation_reason": "abandoned"}).status == "canceled"
    charge = client.v1.charges.retrieve(str(held.latest_charge))
    assert (charge.refunded, charge.amount_refunded, charge.captured) == (False, 0, False)
    for call in (
        client.v1.payment_intents.capture,
        client.v1.payment_intents.confirm,
        client.v1.payment_intents.cancel,
    ):
        with pytest.raises(stripe.InvalidRequestError) as refused:
            call(held.id)
        assert refused.value.code == "payment_intent_unexpected_state"
        assert refused.value.error is not None
        assert refused.value.error.payment_intent.status == "canceled"
    succeeded = paid(client)
    with pytest.raises(stripe.InvalidRequestError, match="because it has a status of succeeded"):
        client.v1.payment_intents.cancel(succeeded.id)


@pytest.mark.parametrize(
    ("card", "code", "decline", "advice"),
    [
        ("pm_card_visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds", "try_again_later"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", "expired_card", "confirm_card_data"),
        ("pm_card_decline_pickup_card__do_not_try_again", "card_declined", "pickup_card", "do_not_try_again"),
    ],
)
def test_a_declined_card_is_a_402_that_the_payment_shows(
    client: stripe.StripeClient, card: str, code: str, decline: str, advice: str
) -> None:
    made = client.v1.payment_intents.create({**CARD})
    with pytest.raises(stripe.CardError) as declined:
        client.v1.payment_intents.confirm(made.id, {"payment_method": card})
    error: Any = declined.value.error
    assert (declined.value.http_status, error.code, error.decline_code, error.advice_code) == (
        402,
        code,
        decline,
        advice,
    )
    shown = client.v1.payment_intents.retrieve(made.id, {"expand": ["latest_charge"]})
    assert (shown.status, shown.payment_method) == ("requires_payment_method", None)
    last: Any = shown.last_payment_error
    charge: Any = shown.latest_charge
    assert (last.decline_code, charge.status, charge.outcome.reason) == (decline, "failed", decline)
    assert client.v1.payment_intents.confirm(made.id, {"payment_method": "pm_card_visa"}).status == "succeeded"


def test_three_d_secure_sends_the_payer_to_a_page_and_back(client: stripe.StripeClient) -> None:
    back = "http://127.0.0.1:9/back?order=7"
    for outcome, status, shown in (
        ("complete", "succeeded", "succeeded"),
        ("fail", "requires_payment_method", "failed"),
    ):
        waiting = paid(client, "pm_card_authenticationRequired", return_url=back)
        assert waiting.status == "requires_action"
        action: Any = waiting.next_action
        assert (action.type, action.redirect_to_url.return_url) == ("redirect_to_url", back)
        assert "3-D Secure" in httpx.get(action.redirect_to_url.url).text
        answer = httpx.post(action.redirect_to_url.url, data={"outcome": outcome})
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        assert query["order"] == ["7"]
        assert (query["payment_intent"], query["redirect_status"]) == ([waiting.id], [shown])
        ended = client.v1.payment_intents.retrieve(waiting.id)
        assert ended.status == status
    last: Any = ended.last_payment_error
    assert last.code == "payment_intent_authentication_failure"
    with pytest.raises(stripe.CardError) as declined:
        paid(client, "pm_card_authenticationRequired", off_session=True)
    assert declined.value.code == "authentication_required"


def test_a_token_of_the_payers_browser_pays_once_and_a_kept_card_again(
    fake: Fake, account: str, client: stripe.StripeClient
) -> None:
    browser = fake.client(f"pk_test_{account}")
    number = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2030, "cvc": "123"}
    with pytest.raises(stripe.CardError, match="generally unsafe"):
        client.v1.payment_methods.create({"type": "card", "card": number})
    typed: Any = {"type": "card", "card": number}
    method = browser.v1.payment_methods.create(typed)
    with pytest.raises(stripe.AuthenticationError):
        browser.v1.payment_intents.list()
    page = {"Origin": "http://127.0.0.1:9", "Access-Control-Request-Method": "POST"}
    asked = httpx.options(f"{fake.address}/v1/payment_methods", headers=page)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, "*"), "a page may ask"
    assert paid(client, method.id).status == "succeeded"
    with pytest.raises(stripe.InvalidRequestError, match="may not be used again"):
        paid(client, method.id)
    customer = client.v1.customers.create({"email": "payer@example.com"})
    token = browser.v1.test_helpers.confirmation_tokens.create(
        {"payment_method": browser.v1.payment_methods.create(typed).id, "setup_future_usage": "off_session"}
    )
    first = client.v1.payment_intents.create({**CARD, "customer": customer.id})
    first = client.v1.payment_intents.confirm(first.id, {"confirmation_token": token.id})
    kept = client.v1.customers.payment_methods.list(customer.id).data[0]
    assert (first.status, first.payment_method, kept.id) == ("succeeded", kept.id, kept.id)
    assert paid(client, kept.id, customer=customer.id, off_session=True).status == "succeeded"
    with pytest.raises(stripe.InvalidRequestError, match="already used"):
        paid(client, None, confirmation_token=token.id)  # type: ignore[arg-type]


def test_a_key_replays_its_first_answer_for_a_day(fake: Fake, account: str, client: stripe.StripeClient) -> None:
    made = [client.v1.payment_intents.create({**CARD}, keyed("k1")) for _ in range(2)]
    assert made[0].id == made[1].id
    assert [each.last_response.headers.get("idempotent-replayed") for each in made] == [None, "true"]  # type: ignore[union-attr]
    with pytest.raises(stripe.IdempotencyError, match="same parameters"):
        client.v1.payment_intents.create({**CARD, "amount": 30_000}, keyed("k1"))
    with pytest.raises(stripe.IdempotencyError, match="same endpoint"):
        client.v1.payment_intents.confirm(made[0].id, {}, keyed("k1"))
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.payment_intents.create({"amount": 1, "currency": "nil"}, keyed("k2"))
    with pytest.raises(stripe.InvalidRequestError, match="Missing required param: currency"):
        client.v1.payment_intents.create({"amount": 25_000}, keyed("k3"))  # type: ignore[typeddict-item]
    assert client.v1.payment_intents.create({**CARD}, keyed("k3")).status == "requires_payment_method"
    for key, fault in (("k4", "error_before"), ("k5", "error_after")):
        fake.control("faults", [{"fault": fault}])
        for _ in range(2):
            with pytest.raises(stripe.APIError) as broken:
                client.v1.payment_intents.create({**CARD, "metadata": {"key": key}}, keyed(key))
            assert broken.value.http_status == 500
        assert broken.value.headers is not None
        assert broken.value.headers["idempotent-replayed"] == "true"
    listed = client.v1.payment_intents.list({"limit": 100, "created": {"gte": made[0].created}})
    assert [each.metadata.to_dict() for each in listed.data] == [{"key": "k5"}, {}, {}]
    fake.control("clock", {"seconds": 86_400})
    assert client.v1.payment_intents.create({**CARD}, keyed("k1")).id != made[0].id
    fresh = [line for line in fake.lines(account) if line.key == "k4"]
    assert [line.fault for line in fresh] == ["error_before", None]


def test_what_fails_on_the_way_is_told_apart_by_the_key(fake: Fake, account: str, client: stripe.StripeClient) -> None:
    def counted() -> int:
        return len(client.v1.payment_intents.list({"limit": 100}).data)

    for number, (fault, applied) in enumerate(
        (("reset_before", 0), ("reset_after", 1), ("garbage", 1), ("rate_limited", 0), ("locked", 0), ("conflict", 0))
    ):
        before = counted()
        fake.control("faults", [{"fault": fault, "path": "/v1/payment_intents"}])
        with pytest.raises(stripe.StripeError):
            client.v1.payment_intents.create({**CARD}, keyed(f"f{number}"))
        assert counted() == before + applied, fault
        client.v1.payment_intents.create({**CARD}, keyed(f"f{number}"))
        assert counted() == before + 1, fault
    retrying = fake.client(f"sk_test_{account}", retries=2)
    fake.control("faults", [{"fault": "late", "seconds": 0.1}])
    made = retrying.v1.payment_intents.create({**CARD}, keyed("late"))
    time.sleep(0.2)
    assert [each.id for each in client.v1.payment_intents.list({"limit": 1}).data] == [made.id], (
        "the late one is a replay"
    )


def test_wrong_keys_versions_and_parameters_are_refused_in_stripes_words(
    fake: Fake, account: str, client: stripe.StripeClient
) -> None:
    with pytest.raises(stripe.AuthenticationError, match=r"Invalid API Key provided: sk_test_\*+"):
        fake.client(f"sk_test_{account}x").v1.accounts.retrieve_current()
    made = client.v1.payment_intents.create({**CARD})
    with pytest.raises(stripe.InvalidRequestError, match="a similar object exists in test mode") as hidden:
        fake.client(f"sk_live_{account}").v1.payment_intents.retrieve(made.id)
    assert (hidden.value.http_status, hidden.value.code, hidden.value.param) == (404, "resource_missing", "intent")
    wrong: list[tuple[dict[str, Any], str, str | None, str | None]] = [
        ({"amount": "ten"}, "Invalid integer: ten", "amount", "parameter_invalid_integer"),
        ({"amount": 999}, "Amount must be at least $10.00 mxn", "amount", "amount_too_small"),
        ({"metadata": {"k": "v" * 501}}, "Metadata values can have up to 500", "metadata[k]", None),
        ({"capture_method": "soon"}, "Invalid capture_method: must be one of", "capture_method", None),
        ({"colour": "red"}, "Received unknown parameter: colour", "colour", "parameter_unknown"),
        (
            {"payment_method_options": {"card": {"hue": 1}}},
            "unknown parameter",
            "payment_method_options[card][hue]",
            "parameter_unknown",
        ),
        ({"payment_method": "pm_none"}, "No such PaymentMethod: 'pm_none'", "payment_method", "resource_missing"),
        ({"customer": "cus_none"}, "No such customer: 'cus_none'", "customer", "resource_missing"),
        ({"confirm": True}, "missing a payment method", None, "payment_intent_unexpected_state"),
        ({"expand": ["colour"]}, "This property cannot be expanded (colour).", "expand", None),
    ]
    for changes, message, param, code in wrong:
        with pytest.raises(stripe.InvalidRequestError) as refused:
            client.v1.payment_intents.create({**CARD, **changes})  # type: ignore[typeddict-item]
        assert message in str(refused.value)
        assert (refused.value.http_status, refused.value.param, refused.value.code) == (400, param, code)
    assert len(client.v1.payment_intents.list().data) == 1, "a refused payment leaves nothing"
    with pytest.raises(stripe.APIError, match="fake_stripe does not support the parameter transfer_group"):
        client.v1.payment_intents.create({**CARD, "transfer_group": "g"})
    automatic = {"amount": 25_000, "currency": "mxn", "payment_method": "pm_card_visa", "confirm": True}
    with pytest.raises(stripe.InvalidRequestError, match="you must provide a `return_url`"):
        client.v1.payment_intents.create(automatic)  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer sk_test_{account}", "Stripe-Version": "2019-01-01"}
    assert httpx.get(f"{fake.address}/v1/account", headers=headers).status_code == 400
    assert (
        httpx.get(f"{fake.address}/v1/moon", headers={"Authorization": f"Bearer sk_test_{account}"}).status_code == 404
    )


def test_lists_are_newest_first_in_pages_and_refunds_of_some_cards_end_later(
    fake: Fake, client: stripe.StripeClient
) -> None:
    made = [client.v1.payment_intents.create({**CARD, "metadata": {"n": str(n)}}) for n in range(5)]
    first = client.v1.payment_intents.list({"limit": 2})
    assert ([each.id for each in first.data], first.has_more) == ([made[4].id, made[3].id], True)
    assert [each.id for each in first.auto_paging_iter()] == [each.id for each in reversed(made)]
    back = client.v1.payment_intents.list({"limit": 2, "ending_before": made[1].id})
    assert [each.id for each in back.data] == [made[3].id, made[2].id]
    pending = client.v1.refunds.create({"payment_intent": paid(client, "pm_card_pendingRefund").id})
    failing = client.v1.refunds.create({"payment_intent": paid(client, "pm_card_refundFail").id, "amount": 10_000})
    assert (pending.status, failing.status) == ("pending", "succeeded")
    fake.control("clock", {"seconds": 10})
    assert client.v1.refunds.retrieve(pending.id).status == "succeeded"
    failed = client.v1.refunds.retrieve(failing.id, {"expand": ["failure_balance_transaction", "charge"]})
    returned: Any = failed.failure_balance_transaction
    charge: Any = failed.charge
    assert (failed.status, returned.amount, charge.amount_refunded) == ("failed", 10_000, 0)
    held = paid(client, capture_method="manual")
    fake.control("clock", {"seconds": 7 * 86_400})
    lapsed = client.v1.payment_intents.retrieve(held.id)
    assert (lapsed.status, lapsed.cancellation_reason) == ("canceled", "expired")


SUDDEN = ["ok", "error_before", "error_after", "reset_before", "reset_after", "rate_limited", "conflict", "garbage"]


def test_no_key_is_charged_twice_whatever_fails_on_the_way(
    fake: Fake, account: str, client: stripe.StripeClient
) -> None:
    """Each payment is tried until its key has an answer. A stored 500 is one, and only a list shows what it did."""
    fake.control("trouble", {"probability": 0.6, "seed": 7, "faults": SUDDEN})
    succeeded = set()
    for number in range(40):
        for _ in range(50):
            try:
                paid(client, metadata={"n": str(number)}, options={"idempotency_key": f"n{number}"})
            except stripe.APIError as error:
                if (error.headers or {}).get("idempotent-replayed") == "true":
                    break
            except stripe.StripeError:
                continue
            else:
                succeeded.add(str(number))
                break
    fake.control("faults", method="DELETE")
    listed = client.v1.payment_intents.list({"limit": 100}).data
    numbers = [each.metadata["n"] for each in listed if each.metadata]
    assert len(numbers) == len(set(numbers))
    assert succeeded < set(numbers), "some were paid behind a stored 500"
    captured = {line.about: line.amount for line in fake.lines(account) if line.moved == "CAPTURED"}
    assert captured == {each.id: each.amount_received for each in listed}


def test_a_setup_saves_a_card_without_a_payment(fake: Fake, client: stripe.StripeClient) -> None:
    customer, setups = client.v1.customers.create({}).id, client.v1.setup_intents
    made = setups.create({"payment_method_types": ["card"], "usage": "off_session"})
    assert (made.status, made.customer) == ("requires_payment_method", None)
    setups.update(made.id, {"customer": customer})
    done = setups.confirm(made.id, {"payment_method": "pm_card_visa", "expand": ["payment_method"]})
    card: Any = done.payment_method
    assert (done.status, card.customer, card.card.last4) == ("succeeded", customer, "4242")
    for _ in range(2):
        assert paid(client, card.id, customer=customer, off_session=True).status == "succeeded"
    with pytest.raises(stripe.InvalidRequestError) as over:
        setups.cancel(made.id)
    assert over.value.code == "setup_intent_unexpected_state"
    client.v1.payment_methods.detach(card.id)
    with pytest.raises(stripe.InvalidRequestError):
        paid(client, card.id, customer=customer)
    declined = setups.create({"payment_method_types": ["card"], "customer": customer})
    with pytest.raises(stripe.CardError) as refused:
        setups.confirm(declined.id, {"payment_method": "pm_card_decline_lost_card__do_not_try_again"})
    assert refused.value.error is not None
    assert (refused.value.error.decline_code, refused.value.error.advice_code) == ("lost_card", "do_not_try_again")
    assert setups.retrieve(declined.id).last_setup_error.code == "card_declined"
    for passed, status in ((False, "requires_payment_method"), (True, "succeeded")):
        asked = setups.confirm(
            declined.id, {"payment_method": "pm_card_authenticationRequired", "return_url": "https://shop.example/back"}
        )
        page = httpx.get(asked.next_action.redirect_to_url.url)
        assert (asked.status, page.status_code) == ("requires_action", 200)
        outcome = {"outcome": "complete" if passed else "fail"}
        back = httpx.post(asked.next_action.redirect_to_url.url, data=outcome)
        assert parse_qs(urlsplit(back.headers["location"]).query)["setup_intent"] == [declined.id]
        assert setups.retrieve(declined.id).status == status
    assert [each.id for each in setups.list({"customer": customer})] == [declined.id, made.id]
