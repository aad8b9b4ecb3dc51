"""Archived ranges: message ranges that the agent replaced by a placeholder."""
