"""Which runtime serves which home."""

from __future__ import annotations

from pathlib import Path

from hermes_lcm import runtime


def test_a_home_whose_name_leads_elsewhere_is_another_home(tmp_path: Path) -> None:
    """The real path of a home is remembered only as long as its name is one of the same folder."""
    runtimes, name = runtime.Process(), tmp_path / "home"
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    name.symlink_to("first", target_is_directory=True)
    before = [runtimes.at(name).path, runtimes.at(str(name)).path]
    name.unlink()
    name.symlink_to("second", target_is_directory=True)

    assert before == [tmp_path.resolve() / "first" / "lcm.db"] * 2
    assert runtimes.at(name).path == tmp_path.resolve() / "second" / "lcm.db"
    assert runtimes.at(tmp_path / "absent").path == tmp_path.resolve() / "absent" / "lcm.db"


def test_a_home_that_moved_is_where_it_is_now(tmp_path: Path) -> None:
    """Its name still leads to the same folder, which has another path."""
    runtimes, name = runtime.Process(), tmp_path / "home"
    (tmp_path / "first").mkdir()
    name.symlink_to("first", target_is_directory=True)
    before = runtimes.at(name).path
    (tmp_path / "first").rename(tmp_path / "second")
    name.unlink()
    name.symlink_to("second", target_is_directory=True)

    assert before == tmp_path.resolve() / "first" / "lcm.db"
    assert runtimes.at(name).path == tmp_path.resolve() / "second" / "lcm.db"
