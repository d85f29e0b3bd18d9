"""The published description of the interface: OpenAPI 3.1, served at `/openapi.json`.

Shapes, limits and codes come from the types and tables that answer requests. Each endpoint's file has the
`OperationSpec` of its operation: which body and which codes belong to it, and texts for people.

In reading order:

- `operation`: what an operation's description has. `parameters`, `examples`, `links`: what operations share.
- `error_descriptions`: when each code comes. `components`: from structs to schemas. `document`: all of it together.
"""
