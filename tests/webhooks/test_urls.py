"""What a merchant may write as an endpoint's URL."""

import pytest

from ledger.domain.rejections import InvalidField
from ledger.webhooks.urls import parse_url


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("/webhooks", "must be absolute"),
        ("shop.example.com/webhooks", "must be absolute"),
        ("//shop.example.com/webhooks", "must be absolute"),
        ("ftp://shop.example.com/", "must begin with https://, not with ftp:"),
        ("file:///etc/passwd", "must begin with https://, not with file:"),
        ("javascript:alert(1)", "must begin with https://, not with javascript:"),
        ("https:shop.example.com", "must name a host"),
        ("https:///webhooks", "must name a host"),
        ("https://h:0/", "must name a host, and a port from 1"),
        ("https://h:65536/", "must be an address like"),
        ("https://h:80:90/", "must be an address like"),
        ("https://[::1/", "must be an address like"),
        ("https://ana@h/", "must have no user"),
        ("https://@h/", "must have no user"),
        ("https://ana:pass@h/", "must have no user"),
        ("https://h/#a", "must have no fragment"),
        ("https://h/#", "must have no fragment"),
        ("https://h/a b", "must have no spaces"),
        ("https://h\n/", "must have no spaces"),
        ("https://h\x00/", "must have no spaces"),
        ("https://h\\@127.0.0.1/", "must have no spaces, backslashes"),
        ("https://①②⑦.0.0.1/", "must write its host in ASCII"),
        ("https://café.example/", "must write its host in ASCII"),
        ("https://h。example/", "must write its host in ASCII"),
        ("https://%31%32%37.0.0.1/", "must name a host of letters"),
        ("https://a..b/", "must name a host of letters"),
        ("https://-a/", "must name a host of letters"),
        (f"https://{'a' * 64}.example/", "must name a host of letters"),
        (f"https://{'a.' * 130}example/", "must name a host of letters"),
        ("https://[fe80::1%25eth0]/", "must have no zone"),
        ("https://2130706433/", "four decimal numbers"),
        ("https://0x7f000001/", "four decimal numbers"),
        ("https://0177.0.0.1/", "four decimal numbers"),
        ("https://127.1/", "four decimal numbers"),
        ("https://127.0.0.1./", "four decimal numbers"),
        ("https://127.0.0.0x1/", "four decimal numbers"),
        ("https://256.0.0.1/", "four decimal numbers"),
        (f"https://h/{'a' * 2_039}", "must have at most 2048 characters, and has 2049"),
    ],
)
def test_a_url_that_parsers_read_differently_is_refused_with_its_reason(text, problem):
    with pytest.raises(InvalidField, match=r"^url ") as refusal:
        parse_url(text)
    assert problem in refusal.value.problem


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://Hooks.Shop.Example:8443/a%2Fb/@/?x=1&y=@", "hooks.shop.example"),
        ("https://xn--caf-dma.example", "xn--caf-dma.example"),
        ("https://shop.example./a", "shop.example."),
        ("https://my_shop.example/ñ", "my_shop.example"),
        ("https://203.0.113.7/", "203.0.113.7"),
        ("https://[2606:4700::1111]/", "2606:4700::1111"),
        (f"https://h/{'a' * 2_038}", "h"),
    ],
)
def test_other_urls_are_accepted(text, host):
    assert parse_url(text).raw_host == host
