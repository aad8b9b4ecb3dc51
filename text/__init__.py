"""Pure text functions: standard library only, no I/O."""
