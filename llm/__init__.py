"""Language models: everything that costs tokens."""
