"""What a logo may be."""

import struct

import pytest
from tests.invoicing.documents import png

from ledger.invoicing.logos import FILE_MAX, SIDE_MAX, SIDE_MIN, LogoWrong, open_logo


def test_a_logo_has_the_size_that_its_picture_has():
    logo = open_logo(png(120, 80))
    assert (logo.width, logo.height, logo.png) == (120, 80, png(120, 80))
    for side in (SIDE_MIN, SIDE_MAX):
        assert open_logo(png(side, SIDE_MIN)).width == side


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (b"", "is no PNG"),
        (b"GIF89a" + bytes(100), "is no PNG"),
        (png()[:40], "cannot be read"),
        (png()[:8] + bytes(100), "is no PNG"),
        (png(SIDE_MIN - 1, 20), "15 x 20 pixels"),
        (png(20, SIDE_MAX + 1), "20 x 1201 pixels"),
        (png() + bytes(FILE_MAX), "a logo has at most 131,072"),
        (png()[:60] + b"?" + png()[61:], "cannot be read"),
    ],
)
def test_what_is_no_logo_is_refused_with_the_reason(file, problem):
    with pytest.raises(LogoWrong, match=problem):
        open_logo(file)


def test_a_picture_that_states_a_huge_size_is_never_decoded(monkeypatch):
    monkeypatch.setattr("ledger.invoicing.logos._require_printable", None)
    huge = bytearray(png())
    struct.pack_into(">II", huge, 16, 1 << 30, 1 << 30)
    with pytest.raises(LogoWrong, match="1073741824"):
        open_logo(bytes(huge))
