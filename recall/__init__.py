"""The tools' answers: search, expand, describe, ask, and the agent's own archive."""
