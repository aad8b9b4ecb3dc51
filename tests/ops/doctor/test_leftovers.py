"""What earlier versions left behind in a sound file is found by a look, and mended after a backup."""

from __future__ import annotations

from worlds.home import Home

from hermes_lcm.ops import backup
from hermes_lcm.ops.doctor import repair
from hermes_lcm.records import Flag
from hermes_lcm.text import markup


def record(world: Home, *, known: bool) -> int:
    """A context message of ours that was stored as the words of a user; where it is. ``known``: its prompt is."""
    session = world.say("what was said before")
    own, nonce = session.conversation_id, session.nonce
    made = world.runtime.dag.publish(own, session.session_id, [], [], last_seq=1, last_pos=1.0, now=1.0)
    text = f"[lcm:history {nonce}]\nsaid before\n[/lcm:history {nonce} assembly={made}]"
    assert markup.read_context(text) is not None
    world.runtime.dag.seal(made, markup.context_digest("another text"))
    world.say(text)
    if known:
        world.runtime.dag.seal(made, markup.context_digest(text))
    (store_id,) = (row.store_id for row in world.runtime.store.imported([own]))
    return store_id


def hidden(world: Home, store_id: int) -> bool:
    flags = world.runtime.store.heads_of([store_id])[store_id].flags
    return bool(flags & Flag.RETRACTED and flags & Flag.DUPLICATE)


def test_a_record_that_was_stored_as_a_message_is_hidden(world: Home) -> None:
    """To the letter the context message of a prompt of this conversation: nobody said it. A look changes nothing."""
    store_id = record(world, known=True)
    looked = repair.diagnose(world.deps())
    before = hidden(world, store_id)
    repair.repair(world.deps())

    assert looked.leftovers.records == (store_id,)
    assert (before, hidden(world, store_id)) == (False, True)
    assert repair.diagnose(world.deps()).well


def test_a_record_of_a_prompt_that_nobody_knows_stays_what_it_is(world: Home) -> None:
    """Somebody may have pasted it, or an older backup was restored."""
    record(world, known=False)

    assert repair.diagnose(world.deps()).well


def test_an_empty_conversation_is_found_and_removed(world: Home) -> None:
    """Nothing is in it; the others stay."""
    before = world.runtime.db.query("SELECT conversation_id FROM conversations")
    with world.runtime.db.transaction():
        world.runtime.db.execute(
            "INSERT INTO conversations(principal, nonce, created_at) VALUES ('session:x', 'abcdef0123456789', 1.0)"
        )
    looked = repair.diagnose(world.deps())
    done = repair.repair(world.deps())

    assert len(looked.leftovers.conversations) == 1
    assert done.kept in [each.path for each in backup.backups(world.deps())]
    assert world.runtime.db.query("SELECT conversation_id FROM conversations") == before
    assert repair.repair(world.deps()).diagnosis.well
