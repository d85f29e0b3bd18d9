"""The ways in which a primary is lost, and how the node comes back afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from campaigns.failover.cluster import Cluster, Node


class Fault(Struct, frozen=True, kw_only=True):
    """A way to lose the primary. `strike` returns once it has happened; `mend` lets the node come back as a standby.

    `promoted` is what happens to the former primary as soon as another node is one.
    """

    name: str
    about: str
    strike: Callable[[Cluster, Node], Awaitable[None]]
    promoted: Callable[[Cluster, Node], None]
    mend: Callable[[Cluster, Node], None]


def _nothing(_cluster: Cluster, _node: Node) -> None:
    """The node needs nothing."""


async def _switch_over(cluster: Cluster, node: Node) -> None:
    await cluster.switch_over(node)


async def _kill_postmaster(_: Cluster, node: Node) -> None:
    node.kill_postgres()


async def _kill_node(_: Cluster, node: Node) -> None:
    node.kill()


async def _cut_off(cluster: Cluster, node: Node) -> None:
    cluster.cut_off(node)


async def _freeze(_: Cluster, node: Node) -> None:
    node.freeze()


async def _leave_alone(cluster: Cluster, node: Node) -> None:
    cluster.cut_standbys_off(node)
    node.freeze_patroni()


def _restart(cluster: Cluster, node: Node) -> None:
    node.start(cluster.account)


def _join(cluster: Cluster, node: Node) -> None:
    cluster.join(node)


def _thaw(_: Cluster, node: Node) -> None:
    node.thaw()


def _fence(_: Cluster, node: Node) -> None:
    """Ends the former primary, as its watchdog would have done."""
    node.kill()


def _fetch_back(cluster: Cluster, node: Node) -> None:
    cluster.join(node)
    node.start(cluster.account)


FAULTS: Final = (
    Fault(
        name="switchover",
        about="Patroni is asked for another primary",
        strike=_switch_over,
        promoted=_nothing,
        mend=_nothing,
    ),
    Fault(
        name="postmaster",
        about="the postmaster of the primary is killed",
        strike=_kill_postmaster,
        promoted=_nothing,
        mend=_nothing,
    ),
    Fault(
        name="node",
        about="the primary and its Patroni are killed",
        strike=_kill_node,
        promoted=_nothing,
        mend=_restart,
    ),
    Fault(
        name="partition",
        about="the primary reaches neither etcd nor another node; the service reaches it",
        strike=_cut_off,
        promoted=_nothing,
        mend=_join,
    ),
    Fault(
        name="freeze",
        about="every process of the primary's node is stopped, and goes on after another one was promoted",
        strike=_freeze,
        promoted=_nothing,
        mend=_thaw,
    ),
)

ALONE: Final = Fault(
    name="alone",
    about="the primary goes on without its standbys and without its Patroni, until another one is promoted",
    strike=_leave_alone,
    promoted=_fence,
    mend=_fetch_back,
)
"""The primary that acknowledges what no standby has, if anything does."""
