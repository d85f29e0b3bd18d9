"""The published description of the interface: OpenAPI 3.1, served at `/openapi.json`.

Shapes, limits and codes come from the types and tables that answer requests. Each endpoint's file has the
`OperationSpec` of its operation, and `api.description` puts the document together.

In reading order:

- `parameters`, `examples`, `links`: what operations share.
- `error_descriptions`: when each code comes. `components`: from structs to schemas. `webhooks`: what
  is posted to endpoints.
"""
