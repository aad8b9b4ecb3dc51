"""Text functions: standard library only, no I/O."""
