"""`python -m campaigns citus-moves [--moves N] [--clients N] [--seed S]`: shards move to other nodes of Citus under load.

A service runs on a coordinator and two workers. In turn a shard with a merchant is moved by logical replication, the
rebalancer of Citus moves one back, a shard is moved while Citus blocks its writes, and the rebalancer moves one back.
It prints the longest pause between two writes of a merchant that moved, beside that of the same merchants before the
move and that of the others during it. It exits 1 if anything acknowledged is lost, doubled or stuck; 2 where Citus was
not built.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from statistics import median
from typing import Final

from msgspec import Struct

from campaigns.chaos.rounds import show
from campaigns.citus.build import built
from campaigns.citus.trial import Trial, fetch, report, tried

WAYS: Final = ("logical replication", "rebalancer", "blocked writes", "rebalancer")
"""How shards move, in turn. What a move takes out of balance, the rebalancer moves back."""

_MODES: Final = {"logical replication": "force_logical", "blocked writes": "block_writes"}
_BEFORE_S: Final = 3.0

_MOVE: Final = """
select citus_move_shard_placement(p.shardid, n.nodeid, o.nodeid, %s::citus.shard_transfer_mode)
  from pg_dist_placement p join pg_dist_node n using (groupid) join pg_dist_node o on o.shouldhaveshards and o.groupid <> p.groupid
 where p.shardid = %s
"""
_START: Final = "select citus_rebalance_start(shard_transfer_mode => 'force_logical')"
_WAIT: Final = "select citus_rebalance_wait()"


class Move(Struct, frozen=True, kw_only=True):
    """Shards that moved, with how many merchants, and how long that took.

    `paused_s` is the longest pause of a merchant that moved, `before_s` the longest one of the same merchants in the
    seconds before the move, and `others_s` the longest one of the other merchants during the move.
    """

    way: str
    merchants: int
    took_s: float
    paused_s: float
    before_s: float
    others_s: float


async def move_shards(moves: int, trial: Trial) -> Sequence[Move]:
    """Moves shards one after the other while the clients send requests."""
    done = list[Move]()
    for way in islice(cycle(WAYS), moves):
        await asyncio.sleep(_BEFORE_S)
        before, began = await trial.places(), time.monotonic()
        usual = {each: trial.longest_pause([each], began - _BEFORE_S, began) for each in trial.merchants}
        if way == "rebalancer":
            await asyncio.to_thread(fetch, trial.url, _START)
            await asyncio.to_thread(fetch, trial.url, _WAIT)
        else:
            shard = before[trial.random.choice(trial.merchants)].shard
            await asyncio.to_thread(fetch, trial.url, _MOVE, _MODES[way], shard)
        ended = time.monotonic()
        await trial.written_after(ended)
        after = await trial.places()
        moved = {merchant for merchant in trial.merchants if before[merchant] != after[merchant]}
        done.append(
            Move(
                way=way,
                merchants=len(moved),
                took_s=ended - began,
                paused_s=trial.longest_pause(moved, began, ended),
                before_s=max((usual[merchant] for merchant in moved), default=0.0),
                others_s=trial.longest_pause(set(trial.merchants) - moved, began, ended),
            )
        )
        show(f"  {len(done)} {_line(done[-1])}")
    return done


def _line(move: Move) -> str:
    return (
        f"{move.way}: {move.took_s:.1f} s, {move.merchants} merchants moved; longest pause between writes of one "
        f"{move.paused_s:.2f} s, before it {move.before_s:.2f} s, of the others {move.others_s:.2f} s"
    )


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns citus-moves", description=__doc__)
    parser.add_argument("--moves", type=int, default=12, help="in three ways (12)")
    parser.add_argument("--clients", type=int, default=24, help="how many send requests (24)")
    parser.add_argument("--seed", type=int, default=None, help="which requests and shards; drawn where absent")
    options = parser.parse_args(arguments)
    if built() is None:
        sys.stderr.write("Citus was not built here: make citus\n")
        return 2
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    show(f"citus-moves: a coordinator and two workers (seed {seed})")
    result = asyncio.run(tried(partial(move_shards, options.moves), clients=options.clients, seed=seed, pause_s=0.02))
    for way in sorted({*WAYS}):
        if of := [move for move in result.happened if move.way == way and move.merchants]:
            paused = [move.paused_s for move in of]
            show(
                f"{way:>20}  {len(of):>3} moves of merchants, a merchant's writes paused {median(paused):.2f} s, "
                f"{max(paused):.2f} s at most; before {max(move.before_s for move in of):.2f} s at most"
            )
    return report(result)
