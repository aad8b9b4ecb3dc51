"""The doctor: one module for each kind of check, and the report over all of them."""
