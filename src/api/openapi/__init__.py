"""The description of the interface that is published: OpenAPI 3.1, at `/openapi.json`.

The rule a stranger would break: shapes, limits and codes are read off the types and tables that answer requests. Only
what they cannot know stands here: which body and which codes belong to which operation, and words for people.

Read `operations`, `actions` and `sandbox` (what each operation takes and answers), `described` (what they share), `bodies` (answers that no other room has a Struct for),
`parameters`, `components` (from Structs to schemas), `document` (all of it together), `codes` (words for errors).
"""
