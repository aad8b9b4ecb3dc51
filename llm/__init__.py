"""Everything that costs tokens."""
