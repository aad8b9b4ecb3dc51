"""Ledger: rules, decisions, names, values and dates that users stated, quoted and dated."""
