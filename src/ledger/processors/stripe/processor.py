"""One account at Stripe as a processor: the contract's calls, each made by the part that knows it."""

from __future__ import annotations

from ledger.processors.contract import Capabilities
from ledger.processors.stripe.account import MEXICO, capabilities_of, methods_of
from ledger.processors.stripe.cards import Cards
from ledger.processors.stripe.charges import Charges
from ledger.processors.stripe.events import Events
from ledger.processors.stripe.payouts import Payouts
from ledger.processors.stripe.records import Records
from ledger.processors.stripe.references import References
from ledger.processors.stripe.tokens import Tokens
from ledger.processors.stripe.transport import Connections, Transport


class StripeProcessor:
    """The implementation of `contract.Processor` for one account.

    `capabilities` are those that a check of the account has found; without them, those of a Mexican account. All calls
    raise ProcessorTimedOut or ProcessorUnavailable.
    """

    def __init__(self, connections: Connections, secret_key: str, capabilities: Capabilities | None = None) -> None:
        self.capabilities = capabilities or capabilities_of(methods_of(MEXICO))
        transport = Transport(connections, secret_key)
        cards, charges, references = Cards(transport), Charges(transport), References(transport)
        tokens = Tokens(transport)
        self.read_token = tokens.read_token
        self.forget_card = tokens.forget_card
        self.authorize = cards.authorize
        self.submit_device_data = cards.validate_authentication  # Stripe's own page collects the device's data
        self.validate_authentication = cards.validate_authentication
        self.look_up = cards.look_up
        self.capture = charges.capture
        self.void = charges.void
        self.release = charges.release
        self.refund = charges.refund
        self.look_up_capture = charges.look_up_capture
        self.look_up_void = charges.look_up_void
        self.look_up_release = charges.look_up_release
        self.look_up_refund = charges.look_up_refund
        self.issue_reference = references.issue_reference
        self.cancel_reference = references.cancel_reference
        self.pay_out = references.pay_out
        self.look_up_reference = references.look_up_reference
        self.look_up_cancellation = references.look_up_cancellation
        self.look_up_payout = references.look_up_payout
        payouts = Payouts(transport)
        self.records = Records(transport).records
        events = Events(transport)
        self.findings, self.notices = events.findings, events.notices
        self.lines = payouts.lines_since
        self.look_up_line = payouts.look_up_line

    @property
    def alive(self) -> bool:
        """Whether calls can be sent: connections are opened when they are needed."""
        return True
