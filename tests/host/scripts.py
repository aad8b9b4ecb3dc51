"""What users say and agents do in several of the tests."""

from __future__ import annotations

from collections.abc import Sequence

from host.model_server import Reply, Request, last_said

LISTING = "seq -f 'line %g of the listing' 1 800"  # about 18,000 characters


def busy_turn(turn: int) -> Sequence[Reply]:
    """A command whose output is the same every turn, then two files read at once: about 14,000 tokens."""
    write = f"{LISTING}; seq -f 'a{turn} %g' 1 1200 > a{turn}.txt; seq -f 'b{turn} %g' 1 1200 > b{turn}.txt"
    read = [("read_file", {"path": f"{name}{turn}.txt", "limit": 1200}) for name in "ab"]
    return [Reply("I look.", [("terminal", {"command": write})]), Reply("", read)]


def long_turn(rounds: int) -> Sequence[Reply]:
    """Rounds of tools within one turn, about 5,000 tokens each, all different."""
    commands = [f"seq -f 'round {number} line %g' 1 900" for number in range(rounds)]
    return [Reply("", [("terminal", {"command": command})]) for command in commands]


def sayings(turn: int) -> str:
    """What the user says: some turns the very same word."""
    return "yes" if turn % 3 == 1 else f"Step {turn}: go on with part {turn * 7}.\n\n  Indented, and with blanks.  \n"


def speaker(request: Request) -> str:
    """Whose conversation this is: the first word of what the user said last."""
    return last_said(request)[0].split(maxsplit=1)[0]


def of_many(request: Request) -> Reply:
    """Several people at once: "ada 3 look" has a command run and a file read, "ada 4 spy QUERY" searches everybody's archive."""
    said, answers = last_said(request)
    name, turn, verb, *rest = said.split()
    if verb == "look":
        write = f"seq -f '{name} {turn} secret-of-{name} %g' 1 700; seq -f '{name} {turn} read %g' 1 1200 > {name}{turn}.txt"
        steps = [Reply("I look.", [("terminal", {"command": write})])]
        steps.append(Reply("", [("read_file", {"path": f"{name}{turn}.txt", "limit": 1200})]))
    elif verb == "spy":
        query, session = rest
        wide = {"query": query, "session_scope": "all"}
        steps = [Reply("", [("lcm_grep", wide), ("lcm_load_session", {"session_id": session, "limit": 50})])]
    else:
        steps = []
    return steps[answers] if answers < len(steps) else Reply(f"Done with {name} {turn}.")
