"""
The plugin's places in a Hermes home: the dashboard's folder for an installed package, and what goes when the plugin leaves.

Only links are made and removed; a folder that somebody cloned or copied is named and left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import BadRequest, StoreError

NAME = "hermes-lcm"
_DASHBOARD = "dashboard"


def lay(home: Path, plugin: Path, *, apply: bool) -> tuple[Path | None, bool]:
    """(where the host finds the dashboard, whether it was there already). ``plugin``: the folder that runs.

    Raises BadRequest where something else lies in that place.
    """
    folder = home / "plugins" / NAME
    if folder.exists() and folder.resolve() == plugin.resolve():
        return folder / _DASHBOARD, True
    link = folder / _DASHBOARD
    if link.exists() and link.resolve() == (plugin / _DASHBOARD).resolve():
        return link, True
    if link.exists() or link.is_symlink() or (folder / "plugin.yaml").exists():
        raise BadRequest(f"{folder} is another copy of the plugin than {plugin}, which runs; remove one of the two")
    if apply:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            link.symlink_to(plugin / _DASHBOARD, target_is_directory=True)
        except OSError as exc:
            raise StoreError(f"{link}: {exc.strerror or exc}") from exc
    return link, False


def links(home: Path) -> Sequence[Path]:
    """The links of ours in a home, which an uninstall removes."""
    folder = home / "plugins" / NAME
    return [path for path in (folder, folder / _DASHBOARD) if path.is_symlink()][:1]


def remove(home: Path) -> Path | None:
    """Remove these links, and the folder if nothing else is in it. Returns the rest of it, or None."""
    folder = home / "plugins" / NAME
    for link in links(home):
        link.unlink()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return folder if folder.exists() else None
