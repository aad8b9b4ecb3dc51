"""Ingest: from the live message list to new rows, each message once."""
