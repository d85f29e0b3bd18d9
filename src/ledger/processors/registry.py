"""The processors with which merchants can connect accounts of their own, and what each needs to know of an account.

A processor is one value of `Kinds`. Never log or return the keys of an account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMethod, AccountMode
from ledger.processors.contract import Processor
from ledger.processors.messages import MessageNotice


class AccountKeys(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The secret keys of an account: in a request, in the processor's adapter, and sealed. They print as stars.

    A processor signs its messages with one of `webhook_secrets`: there are two while one replaces the other.
    """

    secret_key: str | None = None
    webhook_secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "AccountKeys(***)"

    __str__ = __repr__


class AccountFacts(Struct, frozen=True, kw_only=True):
    """What a processor answers about an account: what it can take, and what the merchant should do about it.

    `reference` is the processor's own id of the account, which all of its keys share.
    """

    mode: AccountMode
    methods: tuple[AccountMethod, ...]
    reference: str | None = None
    country: str | None = None
    problems: tuple[str, ...] = ()


class KeyRefused(Exception):
    """The processor does not accept the secret key. `words` are its own."""

    def __init__(self, words: str) -> None:
        super().__init__("the processor refuses the key")
        self.words = words


class KeysUnchecked(Exception):
    """The processor did not answer whether it accepts the keys of an account, so that they were not stored."""


class AccountKind(Protocol):
    """A processor with which accounts can be connected. `takes_keys` is false for one that is simulated."""

    name: str
    takes_keys: bool

    def key_problem(self, secret_key: str) -> str | None:
        """Returns what is wrong with the form of a secret key, which completes the field's name; None if nothing is."""
        ...

    def publishable_key_problem(self, key: str) -> str | None:
        """Returns the same of a key that is public: a secret key in its place above all."""
        ...

    def webhook_secret_problem(self, secret: str) -> str | None:
        """Returns the same of a secret that signs the processor's messages."""
        ...

    def mode_of(self, key: str) -> AccountMode:
        """Returns the mode of a secret or a publishable key of the right form."""
        ...

    async def check(self, keys: AccountKeys, deadline_at: datetime) -> AccountFacts:
        """Asks the processor about the account until a real time.

        Raises KeyRefused, ProcessorUnavailable and ProcessorTimedOut: a check changes nothing at the processor.
        """
        ...

    async def publishable_key_mismatch(self, key: str, keys: AccountKeys, deadline_at: datetime) -> str | None:
        """Asks the processor whether a public key is one of the account's until a real time.

        Returns what is wrong with it, which completes the field's name; None if nothing is, or if the processor does
        not show it. Raises ProcessorUnavailable and ProcessorTimedOut.
        """
        ...

    def read_message(
        self, headers: Mapping[bytes, bytes], body: bytes, secrets: Sequence[str], now: datetime
    ) -> MessageNotice:
        """Returns what a message is about that one of `secrets` signed. The names of `headers` are in small letters. No
        finding (`findings`) has an id of the message's form: it would be taken for stored already.

        Raises InvalidSignature, also for a signature of too long ago, without any difference in what it does; then
        MessageUnreadable for a message of this processor that has no id.
        """
        ...

    def open(self, account: ProcessorAccount, keys: AccountKeys) -> Processor:
        """Returns the adapter of an account with these keys. Makes no call. A kind without keys is not asked."""
        ...

    async def stop(self) -> None:
        """Closes the connections of this process to the processor."""
        ...


Kinds = Mapping[str, AccountKind]
"""The processors of an installation by their names."""
