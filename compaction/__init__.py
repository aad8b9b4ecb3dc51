"""Compaction: from the backlog to summaries to a smaller message list."""
