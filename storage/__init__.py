"""Storage: files of SQLite, which nothing else imports; a short read sees the last commit, from any thread."""
