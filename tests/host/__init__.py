"""The plugin inside the real host: a scripted model on loopback, real processes, nothing replaced."""
