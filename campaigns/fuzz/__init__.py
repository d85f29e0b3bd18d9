"""Malformed and generated requests.

- `corpus`: every malformed request that has a name. `bounds`: every bound of an API process, filled at once.
- `command`, `running`, `hooks`: Schemathesis against a running service, and what of its findings is excused.
"""
