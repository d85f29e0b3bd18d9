"""The campaigns: what each shows, and how long it takes with its defaults on two cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from msgspec import Struct

Main = Callable[[Sequence[str]], int]


class Campaign(Struct, frozen=True):
    """A campaign. `module` has its `main`, which takes the arguments after the name and returns the exit status."""

    name: str
    shows: str
    takes: str
    module: str

    def main(self) -> Main:
        """Returns its program. The module is imported only now, because listing the campaigns needs none of them."""
        main: Main = import_module(self.module).main
        return main


CAMPAIGNS: Final = {
    campaign.name: campaign
    for campaign in (
        Campaign(
            "chaos",
            "every acknowledged change survives kills, stalls, cut connections and full disks, once",
            "two hours",
            "campaigns.chaos.command",
        ),
        Campaign(
            "failover",
            "nothing acknowledged is lost, doubled or stuck while Postgres under Patroni loses its primary",
            "half an hour",
            "campaigns.failover.command",
        ),
        Campaign(
            "citus-kills",
            "nothing acknowledged is lost, doubled or stuck while nodes of Citus and parts of the service are killed",
            "three minutes",
            "campaigns.citus.kills",
        ),
        Campaign(
            "citus-moves",
            "nothing acknowledged is lost, doubled or stuck while shards move to other nodes of Citus, and how long writes pause",
            "three minutes",
            "campaigns.citus.moves",
        ),
        Campaign(
            "rolling-upgrade",
            "the former release and this one, with clocks apart, serve the same merchants on one database without a fault",
            "five minutes",
            "campaigns.rolling_upgrade.command",
        ),
        Campaign(
            "unknown-outcomes",
            "the log agrees with a processor that fails in every way while the service is killed",
            "ten minutes",
            "campaigns.unknown_outcomes.command",
        ),
        Campaign(
            "messages",
            "orders whose messages came doubled, shuffled, early or never end as with each once and in order",
            "ten minutes",
            "campaigns.messages.command",
        ),
        Campaign(
            "reconciliation",
            "each difference between the log and a processor is found as what it is, and clean days have none",
            "half an hour",
            "campaigns.reconciliation.command",
        ),
        Campaign(
            "webhooks",
            "each endpoint gets every event, in order and as the feed has it, while worker, API and Postgres are killed",
            "five minutes",
            "campaigns.webhooks.command",
        ),
        Campaign(
            "stamped-once",
            "each document is stamped exactly once while the worker, Postgres and the service are killed",
            "five minutes",
            "campaigns.stamped_once.command",
        ),
        Campaign(
            "subscriptions-year",
            "a year of renewals bills each period that was due, once",
            "ten minutes",
            "campaigns.subscriptions.year",
        ),
        Campaign(
            "subscriptions-kills",
            "each period is billed once while the API and the worker are killed during renewals",
            "five minutes",
            "campaigns.subscriptions.kills",
        ),
        Campaign(
            "walker",
            "random requests about subscriptions and invoices over years of the clock leave no centavo without its document",
            "half an hour",
            "campaigns.walker.command",
        ),
        Campaign(
            "crowd",
            "clients that work on the same few orders through two machines, one of which is killed, leave nothing wrong",
            "three minutes",
            "campaigns.crowd.command",
        ),
        Campaign(
            "races",
            "no simultaneous requests to two API processes capture or refund more than there is",
            "half an hour",
            "campaigns.races.command",
        ),
        Campaign(
            "vault",
            "no payment fails while the sealing key of 100,000 saved cards changes; races for saved cards end legally",
            "ten minutes",
            "campaigns.vault.command",
        ),
        Campaign(
            "wrong-requests",
            "each request with mistakes is answered with every wrong field named, and changes no row",
            "a minute",
            "campaigns.wrong_requests.command",
        ),
        Campaign(
            "corpus",
            "each malformed request that has a name is refused, cheaply and without a repeated secret",
            "half a minute",
            "campaigns.fuzz.corpus",
        ),
        Campaign(
            "fuzz",
            "the service answers as it describes, whatever Schemathesis generates from the description",
            "an hour",
            "campaigns.fuzz.command",
        ),
        Campaign(
            "bounds",
            "clients without a key fill every bound of an API process, and its memory stays below 400 MB",
            "five minutes",
            "campaigns.fuzz.bounds",
        ),
        Campaign(
            "mutants",
            "a test fails for each guard of money, idempotency, the fence and secrets that is taken out",
            "a quarter of an hour",
            "campaigns.mutants.command",
        ),
        Campaign(
            "mutation",
            "which changes of the domain no test of the domain notices, whatever they are",
            "five minutes a module",
            "campaigns.mutants.mutation",
        ),
        Campaign(
            "card-numbers",
            "no id is taken for a card number, and card numbers are found however they are written",
            "two minutes",
            "campaigns.card_numbers",
        ),
        Campaign(
            "key-timing",
            "the time of a key's check does not depend on how much of the key is right",
            "five seconds",
            "campaigns.key_timing",
        ),
    )
}
