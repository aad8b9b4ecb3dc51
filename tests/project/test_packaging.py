"""The ways in: a wheel with an entry point, a folder in Hermes' home, and the scripts that put it there."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")
MANIFEST = (ROOT / "plugin.yaml").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

Result = subprocess.CompletedProcess[str]


def run(*command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> Result:
    """A process with nothing of ours in its environment but what the test gives it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "LCM_", "PYTHON"))}
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    words = [str(each) for each in command]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=cwd, env={**clean, **git, **(env or {})}
    )


# -- the manifest ------------------------------------------------------------------------------------------------------


def test_manifest_and_package_have_the_same_version() -> None:
    """One release, one number."""
    assert f"\nversion: {PROJECT['project']['version']}\n" in MANIFEST


def test_the_changelog_knows_the_version() -> None:
    """A release says what it changes."""
    assert f"\n## {PROJECT['project']['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_plugin_needs_no_packages() -> None:
    """It runs in the host's environment, whatever is in it."""
    assert PROJECT["project"]["dependencies"] == []


@pytest.mark.parametrize("name", ["conftest.py", "setup.py", "noxfile.py", "tasks.py"])
def test_no_tool_configuration_is_code_beside_the_plugin(name: str) -> None:
    """Hosts import what lies in a plugin's folder."""
    assert not (ROOT / name).exists()


@pytest.mark.parametrize(
    "name", ["scripts/test", "scripts/setup-env", "scripts/install.sh", "scripts/update.sh", ".ci/run"]
)
def test_scripts_are_executable_and_parse(name: str) -> None:
    """A script that nobody can start is no script."""
    assert os.access(ROOT / name, os.X_OK)
    assert run("bash", "-n", ROOT / name).returncode == 0


# -- the wheel ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, built from a copy because setuptools leaves files behind."""
    source, out = tmp_path_factory.mktemp("source") / "check out", tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=unwanted)
    offline = ["--no-build-isolation"] if _can_build() else []
    done = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *offline, "--wheel-dir", out, source)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def _can_build() -> bool:
    try:
        importlib.metadata.version("wheel")
        return int(importlib.metadata.version("setuptools").split(".", maxsplit=1)[0]) >= 77
    except importlib.metadata.PackageNotFoundError:
        return False


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """All modules and the manifest; no tests, scripts or benchmarks."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    tab = [
        ROOT / "dashboard" / "manifest.json",
        *(path for path in (ROOT / "dashboard" / "web").rglob("*") if path.is_file()),
    ]
    expected = {f"hermes_lcm/{path.relative_to(ROOT)}" for path in [*modules, *tab]} | {"hermes_lcm/plugin.yaml"}

    assert names - {"hermes_lcm/SKILL.md"} == expected


def test_the_wheel_names_the_entry_point_and_the_license(wheel: Path) -> None:
    """The host finds it by the group; people find the terms."""
    archive = zipfile.ZipFile(wheel)
    info = next(name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name)

    assert archive.read(f"{info}/entry_points.txt").decode().split("\n")[:2] == [
        "[hermes_agent.plugins]",
        "hermes-lcm = hermes_lcm",
    ]
    assert any(name.endswith("/LICENSE") for name in archive.namelist())


# -- the host finds it -------------------------------------------------------------------------------------------------

LOOK = """
import json
from hermes_cli.plugins import PluginManager

manager = PluginManager()
manager.discover_and_load()
found = manager._plugins["hermes-lcm"]
print("FOUND" + json.dumps({
    "source": found.manifest.source, "kind": found.manifest.kind, "enabled": found.enabled, "error": found.error,
    "hooks": found.hooks_registered, "engine": getattr(manager._context_engine, "name", None),
}))
"""


def _look(home: Path, *, enabled: bool, path: Path | None = None) -> dict[str, Any]:
    """What a new process of the real host says about the plugin."""
    config = "plugins:\n  enabled: [hermes-lcm]\ncontext:\n  engine: lcm\n" if enabled else "{}\n"
    (home / "config.yaml").write_text(config, encoding="utf-8")
    env = {"HERMES_HOME": str(home)} | ({"PYTHONPATH": str(path)} if path else {})
    done = run(sys.executable, "-c", LOOK, env=env, cwd=home)
    said = re.search(r"^FOUND(.*)$", done.stdout, re.MULTILINE)
    assert said, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(said[1])
    return found


@pytest.fixture(params=["entrypoint", "user"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bool], dict[str, Any]]:
    """Both ways in: an installed wheel, and a link in the plugins folder."""
    home = tmp_path / "home"
    home.mkdir()
    site = None
    if request.param == "entrypoint":
        site = tmp_path / "site"
        zipfile.ZipFile(request.getfixturevalue("wheel")).extractall(site)
    else:
        assert run(ROOT / "scripts" / "install.sh", env={"HERMES_HOME": str(home)}).returncode == 0

    def look(enabled: bool) -> dict[str, Any]:
        return {"way": request.param} | _look(home, enabled=enabled, path=site)

    return look


@pytest.mark.host
def test_the_host_finds_it_and_leaves_it_alone(way: Callable[[bool], dict[str, Any]]) -> None:
    """Not enabled means not loaded."""
    found = way(False)

    assert found["source"] == found["way"]
    assert (found["kind"], found["enabled"], found["engine"]) == ("standalone", False, None)
    assert found["error"].startswith("not enabled")


@pytest.mark.host
def test_the_host_loads_it(way: Callable[[bool], dict[str, Any]]) -> None:
    """Enabled, it registers its engine and every hook that the manifest names."""
    found = way(True)
    promised = re.findall(r"^  - ((?!lcm_)\w+)$", MANIFEST, re.MULTILINE)

    assert (found["enabled"], found["error"], found["engine"]) == (True, None, "lcm")
    assert sorted(found["hooks"]) == sorted(promised)


# -- install.sh --------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in a path with a blank."""
    folder = tmp_path / "my check outs" / "hermes-lcm"
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "plugin.yaml", folder)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Hermes home that does not exist yet."""
    return tmp_path / "her mes"


def install(checkout: Path, **env: object) -> Result:
    return run(checkout / "scripts" / "install.sh", env={name: str(value) for name, value in env.items()})


def test_install_links_the_checkout(checkout: Path, home: Path) -> None:
    """And says which lines config.yaml needs."""
    done = install(checkout, HERMES_HOME=home)

    assert (home / "plugins" / "hermes-lcm").resolve() == checkout
    assert "enabled: [hermes-lcm]" in done.stdout
    assert "engine: lcm" in done.stdout


def test_install_defaults_to_the_users_home(checkout: Path, home: Path) -> None:
    """Without any variable it is ~/.hermes."""
    install(checkout, HOME=home)

    assert (home / ".hermes" / "plugins" / "hermes-lcm").resolve() == checkout


@pytest.mark.parametrize("base", ["", "profiles/work"], ids=["root", "profile"])
def test_install_into_a_profile(checkout: Path, home: Path, base: str) -> None:
    """HERMES_HOME may already be the profile's."""
    install(checkout, HERMES_HOME=home / base, HERMES_PROFILE="work")

    assert (home / "profiles" / "work" / "plugins" / "hermes-lcm").resolve() == checkout


@pytest.mark.parametrize(("profile", "typed"), [("work", "hermes -p work"), ("default", "hermes"), ("", "hermes")])
def test_install_names_the_commands_of_the_profile(checkout: Path, home: Path, profile: str, typed: str) -> None:
    """Typed as shown they write into the config.yaml that was named, not into that of another profile."""
    done = install(checkout, HERMES_HOME=home, HERMES_PROFILE=profile)

    assert f"{typed} plugins enable hermes-lcm && {typed} config set context.engine lcm" in done.stdout
    assert f"`{typed} lcm status`" in done.stdout


def test_install_twice_changes_nothing(checkout: Path, home: Path) -> None:
    """The second run reports that all is in place."""
    install(checkout, HERMES_HOME=home)
    done = install(checkout, HERMES_HOME=home)

    assert (done.returncode, done.stdout.split(":")[0]) == (0, "Already installed")
    assert [each.name for each in (home / "plugins").iterdir()] == ["hermes-lcm"]
    assert not (checkout / "hermes-lcm").exists()


@pytest.mark.parametrize("exists", [True, False], ids=["elsewhere", "dangling"])
def test_install_replaces_a_link(checkout: Path, home: Path, exists: bool) -> None:
    """A link is nobody's data."""
    other = home / "other"
    (home / "plugins").mkdir(parents=True)
    if exists:
        other.mkdir()
    (home / "plugins" / "hermes-lcm").symlink_to(other)
    done = install(checkout, HERMES_HOME=home)

    assert (home / "plugins" / "hermes-lcm").resolve() == checkout
    assert str(other) in done.stdout


def test_install_refuses_to_replace_a_folder(checkout: Path, home: Path) -> None:
    """It may be somebody's clone with work in it."""
    folder = home / "plugins" / "hermes-lcm"
    folder.mkdir(parents=True)
    done = install(checkout, HERMES_HOME=home)

    assert (done.returncode, list(folder.iterdir())) == (1, [])
    assert "is not a link" in done.stderr


def test_install_from_the_plugins_folder_itself(checkout: Path, home: Path) -> None:
    """A clone made there is installed already."""
    folder = home / "plugins" / "hermes-lcm"
    shutil.copytree(checkout, folder)
    done = install(folder, HERMES_HOME=home)

    assert (done.returncode, done.stdout.split(":")[0]) == (0, "Already installed")


@pytest.mark.parametrize("name", ["..", "a/b", "../../x"])
def test_install_refuses_a_profile_that_is_a_path(checkout: Path, home: Path, name: str) -> None:
    """The link stays below the Hermes home."""
    done = install(checkout, HERMES_HOME=home, HERMES_PROFILE=name)

    assert (done.returncode, home.exists()) == (1, False)


# -- update.sh ---------------------------------------------------------------------------------------------------------


def git(folder: Path, *words: object) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")
    done = run("git", "-C", folder, *who, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path, name: str) -> str:
    (folder / name).write_text(name, encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", name)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def origin(checkout: Path) -> Path:
    """The repository that the checkout was cloned from."""
    folder = checkout.with_name("origin")
    checkout.rename(folder)
    git(folder, "init", "-q")
    commit(folder, "first")
    git(folder, "clone", "-q", folder, checkout)
    return folder


def update(checkout: Path, home: Path) -> Result:
    return run(checkout / "scripts" / "update.sh", env={"HERMES_HOME": str(home)})


def test_update_pulls_behind_the_link(origin: Path, checkout: Path, home: Path) -> None:
    """The folder that Hermes loads has the newest commit."""
    install(checkout, HERMES_HOME=home)
    newest = commit(origin, "second")
    done = update(checkout, home)

    assert git(checkout, "rev-parse", "HEAD") == newest
    assert "Restart Hermes" in done.stdout


def test_update_says_when_there_is_nothing_new(origin: Path, checkout: Path, home: Path) -> None:
    """No restart for nothing."""
    assert origin.exists()
    install(checkout, HERMES_HOME=home)
    done = update(checkout, home)

    assert (done.returncode, "up to date" in done.stdout) == (0, True)


def test_update_never_merges(origin: Path, checkout: Path, home: Path) -> None:
    """Work in the checkout is left as it is, with git's reason."""
    install(checkout, HERMES_HOME=home)
    commit(origin, "theirs")
    mine = commit(checkout, "mine")
    done = update(checkout, home)

    assert (done.returncode, git(checkout, "rev-parse", "HEAD")) == (1, mine)
    assert "could not fast-forward" in done.stderr


def test_update_works_for_a_clone_in_place(origin: Path, home: Path) -> None:
    """`git clone` into the plugins folder is the documented way to install."""
    folder = home / "plugins" / "hermes-lcm"
    folder.parent.mkdir(parents=True)
    git(origin, "clone", "-q", origin, folder)
    newest = commit(origin, "second")
    update(folder, home)

    assert git(folder, "rev-parse", "HEAD") == newest


def test_update_without_an_installation(checkout: Path, home: Path) -> None:
    """Says what to do first."""
    done = update(checkout, home)

    assert (done.returncode, "run scripts/install.sh first" in done.stderr) == (1, True)


def test_update_with_a_dangling_link(checkout: Path, home: Path) -> None:
    """Says where the link points."""
    (home / "plugins").mkdir(parents=True)
    (home / "plugins" / "hermes-lcm").symlink_to(home / "gone")
    done = update(checkout, home)

    assert (done.returncode, "which is gone" in done.stderr) == (1, True)


def test_update_of_something_that_is_no_repository(checkout: Path, home: Path) -> None:
    """An unpacked archive cannot be pulled."""
    install(checkout, HERMES_HOME=home)
    done = update(checkout, home)

    assert (done.returncode, "is not a git checkout" in done.stderr) == (1, True)


def test_the_catalog_entry_says_what_the_manifest_says() -> None:
    """Version, tools and hooks; the repository and the commit come with `scripts/catalog`."""
    import yaml

    entry = yaml.safe_load((ROOT / "catalog" / "hermes-lcm.yaml").read_text(encoding="utf-8"))
    manifest = yaml.safe_load((ROOT / "plugin.yaml").read_text(encoding="utf-8"))

    assert (entry["name"], entry["version"], entry["description"]) == tuple(
        manifest[name] for name in ("name", "version", "description")
    )
    for name in ("provides_tools", "provides_hooks"):
        assert entry["capabilities"][name] == manifest[name]
