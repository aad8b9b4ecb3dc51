"""The only package that imports sqlite3."""
