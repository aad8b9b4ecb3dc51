"""Operator verbs: status, backup, repair, and everything else that ``/lcm`` and ``hermes lcm`` can do."""
