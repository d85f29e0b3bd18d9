"""Benchmarks as ratios to limits that are measured in the same run, on the same machine, in turn with what they limit.

The rule a stranger would break: a figure without its limit is not printed as a result. A machine's mood changes from
minute to minute; a ratio of neighbours survives it.

Read `measuring` (samples and turns), `place` (a scratch database), `limits` (R: single INSERTs by pgbench; E: a bare echo),
`load`, `walk` and `writing` (what generates the load, each in its own process), `journal`, `http`, `history` (the benchmarks), `report`.
"""
