"""The form of an entry, which is permanent: byte for byte."""

from datetime import datetime, timedelta, timezone
from uuid import UUID

from ledger.tlog.entries import encode_entry, entry_of

MERCHANT, STREAM, COMMAND = (UUID(int=n) for n in (1, 2, 3))


def test_an_entry_has_these_bytes():
    entry = entry_of(
        MERCHANT,
        position=12,
        stream_id=STREAM,
        version=3,
        topic='a "topic" of ñ\n\x01',
        recorded_at=datetime(2026, 3, 1, 10, 0, 0, 123456, timezone(timedelta(hours=-6))),
        command_id=COMMAND,
        data=b"data",
        context=b"{}",
    )
    assert encode_entry(entry).decode() == (
        '{"merchantId":"00000000-0000-0000-0000-000000000001","position":12,'
        '"streamId":"00000000-0000-0000-0000-000000000002","version":3,"topic":"a \\"topic\\" of ñ\\n\\u0001",'
        '"recordedAtUs":1772380800123456,"commandId":"00000000-0000-0000-0000-000000000003",'
        '"dataSha256":"3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7",'
        '"contextSha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}'
    )
