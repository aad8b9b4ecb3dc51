"""Import and export: archives of other engines, the host's own sessions, transcripts as files."""
