"""The statements that scripts/record_postgres_edges.py asks PostgreSQL for."""
