"""The merchant's accounts with processors as they are answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from projections.processor_accounts import ProcessorAccountDocument


class ProcessorAccountList(Struct, frozen=True, kw_only=True, rename="camel"):
    """The merchant's accounts with processors."""

    data: Annotated[list[ProcessorAccountDocument], Meta(description="The accounts, in the order of connection.")]
