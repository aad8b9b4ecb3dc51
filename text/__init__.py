"""Pure text functions: standard library only, no state, no I/O."""
