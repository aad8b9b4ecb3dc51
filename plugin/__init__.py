"""The side that Hermes calls: registration, hooks and the terminal command."""
