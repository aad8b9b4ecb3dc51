"""The fleet: one history of many hosts, shared through a PostgreSQL server."""
