"""Benchmarks, each as a ratio to a limit that is measured in the same run, on the same machine, in turn with it.

Never report a figure without its limit: what a machine achieves changes from minute to minute, a ratio of neighbouring
samples hardly changes.

In reading order:

- `command`: the command line, `python -m benchmarks`. `run`: runs one benchmark or all. `scratch`: the server and the
  database that they run on.
- `measure`: samples, resources and reports.
- `load`: what the benchmarks load the journal and the service with, and the limits.
- `suites`: the benchmarks.
"""
