"""PostgreSQL: connections, batched reads, arrays, faults, schema."""
