"""The live view: what one frame says, and how it is left."""

from __future__ import annotations

import io
import os
import pty
import threading
from pathlib import Path

import pytest
from worlds.earlier import EarlierPlugin, talk
from worlds.home import empty, healthy

from hermes_lcm.terminal import screen, top


class Screen(io.StringIO):
    """What a terminal shows, and a signal once the first frame is there."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def flush(self) -> None:
        self.drawn.set()


def test_a_frame_of_an_archive(tmp_path: Path) -> None:
    """Archive, session, window, health, the newest sessions; no line is wider than the screen."""
    world = healthy(tmp_path)
    said = top.frame(top.look(world.deps(trusted=True)), 90)

    for words in ("100 messages", "1 summary", "session", "window", "| threshold", "health", "Newest sessions", "s1"):
        assert words in said
    assert max(len(line) for line in said.split("\n")) <= 90


def test_a_line_that_is_too_long_for_the_screen_is_cut_with_a_mark(tmp_path: Path) -> None:
    """By columns: a title in Chinese takes two for each letter, and a line that breaks shifts all below it."""
    world = healthy(tmp_path)
    said = {**top.look(world.deps(trusted=True)), "model": "模型" * 60}

    (session,) = [line for line in top.frame(said, 80).split("\n") if "模型" in line]
    assert session.endswith("…")
    assert screen.columns(session) in (79, 80)
    assert "模型" * 60 in top.frame(said, 1000)


def test_a_setting_that_was_refused_is_named_once(tmp_path: Path) -> None:
    """The message begins with the name, and a narrow screen has no room for it twice."""
    world = healthy(tmp_path)
    world.runtime.health.degraded("setting LCM_LOW_WATER", "LCM_LOW_WATER='9': expected a share", severity="warning")
    said = top.frame(top.look(world.deps(trusted=True)), 90)

    assert "warning: LCM_LOW_WATER='9': expected a share" in said


def test_an_empty_home_says_what_to_do(tmp_path: Path) -> None:
    """Nothing is made by looking."""
    world = empty(tmp_path / "home")

    assert "send a message" in top.frame(top.look(world.deps(trusted=True)), 80)
    assert not world.path.exists()


def test_a_file_of_the_earlier_plugin_is_neither_empty_nor_well(tmp_path: Path) -> None:
    """Its messages are counted as what is still to be taken over."""
    plugin = EarlierPlugin(tmp_path)
    plugin.store("s1", talk(6))
    plugin.close()
    said = top.frame(top.look(empty(tmp_path).deps(None, trusted=True)), 80)

    assert "Its 6 messages are" in said
    assert not any(words in said for words in ("0 messages", "no problem is known", "send a message"))


@pytest.mark.parametrize("key", [b"q", b"Q", b"\x04"])
def test_it_is_left_by_a_key_and_leaves_the_screen_as_it_was(key: bytes) -> None:
    """Drawn on a screen of its own."""
    import termios

    master, slave = pty.openpty()
    keys, out = os.fdopen(slave, "r"), Screen()
    before = termios.tcgetattr(keys)
    typing = threading.Thread(target=lambda: (out.drawn.wait(30), os.write(master, key)))
    typing.start()
    top.live(lambda width: f"frame of {width}", keys, out, every_s=30)
    typing.join(30)
    after = termios.tcgetattr(keys)
    keys.close()
    os.close(master)

    assert "frame of" in out.getvalue()
    assert out.getvalue().endswith("\x1b[?25h\x1b[?1049l")
    assert after == before


def test_ctrl_c_leaves_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a traceback."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "r") as keys:

        def stop(_width: int) -> str:
            raise KeyboardInterrupt

        top.live(stop, keys, Screen())
    os.close(master)
