"""What the host gets to call before anything heavy is imported."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_lcm.plugin import registration


@pytest.mark.parametrize("call", [2, 3], ids=["the words are read", "the command runs"])
def test_ctrl_c_while_the_plugin_is_imported_ends_with_words(
    call: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the time that `hermes lcm status` takes is spent there; it showed a traceback."""
    given: list[Any] = []

    class Ctx:
        def register_cli_command(self, *args: Any) -> None:
            given.extend(args)

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    registration._register_cli(Ctx())
    monkeypatch.setattr(registration, "import_module", stopped)
    with pytest.raises(SystemExit) as ended:
        given[call](None)

    assert (ended.value.code, capsys.readouterr().err) == (130, "Stopped.\n")
