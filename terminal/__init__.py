"""Programs of `hermes lcm` that hold a terminal: the live view, the text interface; completion, pager and width."""
