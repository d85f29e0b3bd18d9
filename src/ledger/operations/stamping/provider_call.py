"""A call to the stamping provider about one document."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ledger.domain.orders.invoices.state import StampingIntent
from ledger.operations.pipeline.calls import Call


class ProviderCall(Call, frozen=True, kw_only=True):
    """A call about a document that has it as open. The kinds of documents give `stream`, `document_id`, `intent`."""

    @property
    def document_id(self) -> UUID:
        """The id of the document, by which the provider recognises a repeated call."""
        raise NotImplementedError

    @property
    def intent(self) -> StampingIntent:
        """The call as the document has it."""
        raise NotImplementedError

    @property
    def deadline_at(self) -> datetime:
        return self.intent.deadline_at

    @property
    def key(self) -> str:
        return str(self.document_id)

    @property
    def cause(self) -> UUID:
        return self.document_id
