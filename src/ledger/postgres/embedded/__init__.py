"""The PostgreSQL server that comes along."""
