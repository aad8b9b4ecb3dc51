"""A process of the real host that several tests talk in, each in sessions of its own: to start one takes three seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from host.drive import Home, Process
from host.model_server import ModelServer, Reply, Script, Turns

GROUPS = {"TELEGRAM_GROUP_ALLOWED_CHATS": "-5,-6,-7,-8,-9"}


class Running:
    """One front end of the host with all defaults, or ``settings``: its scripted model, its home, its process."""

    def __init__(self, folder: Path, *, gateway: bool = False, settings: dict[str, str] = GROUPS) -> None:
        self._folder, self._gateway, self._settings = folder, gateway, settings
        self._made: tuple[ModelServer, Home, Process] | None = None

    def talk(self, chat: Script, *, limit: int = 0) -> tuple[ModelServer, Home, Process]:
        """For the conversation of one test: nothing of the others' is on record. A process that died is started anew.

        A test that needs a summary by the model has a process of its own: failures of another one's let the model rest.
        """
        if self._made is None or not self._made[2].lives:
            self.close()
            model = ModelServer(Turns(lambda _turn: [Reply("")])).__enter__()
            number = sum(1 for _ in self._folder.iterdir())
            home = Home.make(self._folder / str(number), model.base_url, settings=self._settings)
            self._made = model, home, Process(home, cwd=home.path)
            if self._gateway:
                self._made[2].gateway()
        self._made[0].anew(chat, limit=limit)
        self._made[2].events.clear()
        return self._made

    def lent(self) -> Iterator[Running]:
        """To one test: no summary of its conversation is asked for in the next one."""
        yield self
        if self._made and self._made[2].lives:
            self._made[2].prepared(seconds=30)

    def close(self) -> None:
        if self._made:
            self._made[2].stop()
            self._made[0].close()
