"""The published description of the interface: OpenAPI 3.1, served at `/openapi.json`.

Shapes, limits and codes come from the types and tables that answer requests. Each endpoint's file has the
`OperationSpec` of its operation: which body and which codes belong to it, and texts for people.

`operation` (what an operation's description has), `parameters`, `examples` and `links` (what operations share),
`components` (from structs to schemas), `document` (all of it together), `error_descriptions` (when each code comes).
"""
