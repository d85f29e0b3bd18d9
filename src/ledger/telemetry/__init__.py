"""Logs and metrics.

In reading order:

- `logs`: one JSON object per line on standard error. `service_log`: the same of the parent process.
- `metrics`: names, labels and meanings. `shared_values`: the values that processes share.
- `unopened`: sealed records that could not be opened.
- `all_processes`: whether all processes of a service run. `slow_waits`: reports waits that take long.
"""
