"""A conversation that the real agent began without this plugin: imported from the host, it goes on here, each message once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from host.drive import WINDOW, Home, all_rows, compare
from host.model_server import ModelServer, Turns
from host.scripts import busy_turn, sayings

#: What the host's compressor writes into a list: its summary (glued to a message or not), and in the place of an output.
HOSTS_OWN = ("[CONTEXT COMPACTION", "[PRIOR CONTEXT", "[Duplicate tool output", "[Old tool output")
pytestmark = [pytest.mark.host, pytest.mark.slow]


@pytest.mark.parametrize("in_place", [True, False], ids=["in-place", "rotating"])
def test_a_conversation_from_before_comes_over_whole(tmp_path: Path, in_place: bool) -> None:
    """Nine turns with the host's own compressor, an import, another turn with this plugin; importing again adds nothing."""
    with ModelServer(Turns(busy_turn), limit=WINDOW) as model:
        home = Home.make(
            tmp_path / "home",
            model.base_url,
            in_place=in_place,
            engine="compressor",
            config={"plugins": {"enabled": []}},
        )
        with home.process() as host:
            last = host.open()["session_id"]
            for turn in range(9):
                done = host.turn(text=model.says(sayings(turn)))
                assert done["failed"] is None
                last = done["session_id"]
            host.close()
        archived = home.query("SELECT count(*) FROM messages WHERE active = 0")[0][0]
        chain = home.session_chain(last)
        config = home.path / "config.yaml"
        found = json.loads(config.read_text())
        config.write_text(json.dumps({**found, "context": {"engine": "lcm"}, "plugins": {"enabled": ["hermes-lcm"]}}))
        made = _json(home, "import", "host", "--apply", "--json")
        with home.process() as host:
            host.open(session_id=last, resume=True)
            done = host.turn(text=model.says("And now?"))
            rows = all_rows(host, done["session_id"])
        again = _json(home, "import", "host", "--apply", "--json")

    assert archived if in_place else len(chain) > 1, "the host compacted nothing, so nothing was shown"
    assert made["added"] > 0
    said = [row for row in rows if not str(row["content"]).lstrip().startswith(HOSTS_OWN)]
    assert not (difference := compare(home.transcript(model.truth), said)), difference
    assert again["added"] == 0


def _json(home: Home, *words: str) -> dict[str, int]:
    done = home.hermes("lcm", *words)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout[done.stdout.index("{") :])  # type: ignore[no-any-return]
