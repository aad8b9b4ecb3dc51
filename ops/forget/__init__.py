"""Forgetting on purpose: purge with its proof, holds that forbid it, retention by age."""
