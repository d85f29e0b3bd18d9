"""Stamping providers: the simulated one, and the adapters to those of production.

In reading order:

- `sandbox`: the simulated provider. `seals`: what a provider does with a document. `schema`, `rules`: what it refuses
  by SAT's schemas, and by its catalogues and sums.
- `production`: a provider of production, with every call in a thread. `pac`: what the adapters share.
- `finkok`, `sw_sapien`: the adapters. `transport`: one HTTP request to a provider.
"""
