"""The network addresses to which webhooks may be sent.

Without this check, a merchant could name an address inside the operator's network and read in the recorded answers what
is there. `is_global` of `ipaddress` does not decide it: in Python 3.11 it is true for multicast, for site-local
addresses, for IPv6 addresses that carry a private IPv4 address, and for the metadata service of Azure. So this module
has the lists, from the registries of special-purpose addresses of IANA (RFC 6890).
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from msgspec import Struct

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NOT_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; 0.0.0.0 reaches the machine itself
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, with the metadata services of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_PUBLIC_V6: Final = IPv6Network("2000::/3")
"""All that IANA has given to networks. Loopback, ULA, link-local, site-local, multicast and `::a.b.c.d` lie outside."""
_NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments; among them Teredo, which carries an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which carries an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
_CARRIERS: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Networks whose last 32 bits are the IPv4 address that is reached: mapped addresses, and NAT64."""
_OWN_CARRIERS: Final = (IPv6Network("::/96"), IPv6Network("64:ff9b:1::/48"))
"""Networks with an IPv4 address at the end that are not public: IPv4-compatible addresses, an operator's NAT64."""
_METADATA: Final = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Google, Azure, Oracle, DigitalOcean
            "169.254.170.2",  # tasks of AWS ECS
            "169.254.170.23",  # pods of AWS EKS
            "168.63.129.16",  # Azure
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",  # AWS
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
        ),
    )
)
"""Services that give a machine's own credentials to every program on it."""


class Destinations(Struct, frozen=True, kw_only=True):
    """Where webhooks may go beside the public internet.

    `is_local` admits http and loopback: for a sandbox that only this machine reaches. `networks` are an operator's own,
    with http; the metadata services of clouds stay excluded in them.
    """

    is_local: bool = False
    networks: tuple[Network, ...] = ()

    def permits(self, host: str, *, is_encrypted: bool) -> bool:
        """Returns whether a connection to a numeric address may be made, by TLS or without."""
        try:
            written = ip_address(host)
        except ValueError:  # not what the resolver returns: what it would be resolved to is unknown
            return False
        if isinstance(written, IPv6Address) and written.scope_id is not None:
            return False
        address = _reached(written)
        if not _METADATA.isdisjoint((written, *_carried(written))):
            return False
        if any(each in network for each in (written, address) for network in self.networks):
            return True
        if address.is_loopback:
            return self.is_local
        return _is_public(address) and (is_encrypted or self.is_local)


def _reached(address: Address) -> Address:
    """Returns the IPv4 address that is reached by an IPv6 address, or the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in _CARRIERS):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _carried(address: Address) -> Iterator[IPv4Address]:
    """Yields every IPv4 address to which a network may translate or tunnel an IPv6 address."""
    if isinstance(address, IPv4Address):
        return
    if any(address in network for network in (*_CARRIERS, *_OWN_CARRIERS)):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)
