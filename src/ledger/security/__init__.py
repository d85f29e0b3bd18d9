"""Keys and secrets.

In reading order:

- `secrets`: the master key, and the keys that are derived from it or given beside it.
- `api_keys`: making an API key, and the hash that is stored of it.
- `permutation`: a keyed permutation, under which order numbers are made.
"""
