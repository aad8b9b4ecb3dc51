"""Worlds of the tests: each makes one kind of surroundings in a line, over real SQLite files."""
