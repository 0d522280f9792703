"""What scripts/record_postgres.py is made of."""
