"""The kinds of field that requests are made of, with their limits (contract N23).

The rule a stranger would break: a number that will be money stays the bytes that were sent until `money.parse_amount`
reads them. Decoded as a float it would already be another number; decoded as a `Decimal` a twenty-byte `1e3000000` could
hold the process for minutes.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw

TEXT_MAX: Final = 255
DESCRIPTION_MAX: Final = 1000
INVOICE_NUMBER_MAX: Final = 64
METADATA_BYTES_MAX: Final = 32_768
METADATA_DEPTH_MAX: Final = 10
LINE_ITEMS_MAX: Final = 1000
TAXES_MAX: Final = 20

Text = Annotated[str, Meta(max_length=TEXT_MAX)]
LongText = Annotated[str, Meta(max_length=DESCRIPTION_MAX)]
Id = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Country = Annotated[str, Meta(min_length=2, max_length=2, examples=["MX"])]
Number = Annotated[Raw, Meta(extra_json_schema={"type": "number"})]
Metadata = Annotated[Raw, Meta(extra_json_schema={"type": ["object", "null"]})]
MonthOrYear = str | int
