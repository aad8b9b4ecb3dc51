"""Every shell command of README and install page, typed into a shell with the real host, in the order of the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.drive import REPOSITORY

pytestmark = pytest.mark.host

PLUGIN_ROW = re.compile(r"hermes-lcm.*enabled|enabled.*hermes-lcm")


def lines(page: str) -> list[str]:
    """The commands of a page's ``sh`` blocks."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files of this checkout."""
    folder = tmp_path_factory.mktemp("origin") / "hermes-lcm"
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "results")
    shutil.copytree(REPOSITORY, folder, ignore=unwanted)
    author = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "release")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


class Machine:
    """A user's shell: an empty home directory, a checkout in it, and the host's program on the path."""

    def __init__(self, folder: Path, origin: Path) -> None:
        self.user = folder / "user"
        self.checkout = self.user / "src" / "hermes-lcm"
        self.checkout.parent.mkdir(parents=True)
        self.origin = origin
        self.programs = Path(sys.executable).parent
        subprocess.run(["git", "clone", "-q", str(origin), str(self.checkout)], check=True, capture_output=True)

    def types(self, line: str) -> str:
        """What the shell prints for a line; fails when the line does."""
        foreign = ("HERMES_", "LCM_", "GIT_", "PYTHON")
        env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
        env |= {"HOME": str(self.user), "PATH": f"{self.programs}:{env['PATH']}", "NO_COLOR": "1", "COLUMNS": "200"}
        # pip reads a negative option from a variable the other way round: 0 switches the isolation off.
        env |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "HERMES_DISABLE_LAZY_INSTALLS": "1"}
        done = subprocess.run(
            ["bash", "-c", line], env=env, cwd=self.checkout, capture_output=True, text=True, timeout=180,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    def works(self) -> None:
        """What the page says one sees when all is well."""
        assert PLUGIN_ROW.search(self.types("hermes plugins list"))
        assert "context.engine lcm" in self.types("hermes lcm status")


@pytest.fixture
def machine(tmp_path: Path, origin: Path) -> Machine:
    return Machine(tmp_path, origin)


@pytest.fixture
def environment(machine: Machine, tmp_path: Path) -> Iterator[None]:
    """A Python environment of the machine's own, with the host and what builds packages, for ``pip install``."""
    made = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    packages = next(made.glob("lib/python*/site-packages"))
    packages.joinpath("host.pth").write_text(
        next(iter(p for p in sys.path if p.endswith("site-packages"))), encoding="utf-8"
    )
    for name, module in (("pip", "pip"), ("hermes", "hermes_cli.main")):
        call = "import sys; from pip._internal.cli.main import main" if name == "pip" else f"from {module} import main"
        made.joinpath("bin", name).write_text(f"#!{made}/bin/python\nimport sys\n{call}\nsys.exit(main())\n")
        made.joinpath("bin", name).chmod(0o755)
    machine.programs = made / "bin"
    yield
    shutil.rmtree(made)


def test_the_two_commands_of_the_readme(machine: Machine) -> None:
    """And the program answers afterwards."""
    install, activate = lines("README.md")[:2]
    machine.types(install)
    machine.types(activate)

    machine.works()


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["clone", "link", "package"])
def test_the_install_page(way: str, machine: Machine, request: pytest.FixtureRequest) -> None:
    """Each of its three ways in, then activation, then the update of a checkout, then the way back."""
    clone, link, package, enable, activate, update, *leave = lines("docs/install.md")
    if way == "package":
        request.getfixturevalue("environment")
    machine.types({"clone": clone, "link": link, "package": package}[way])
    for line in (enable, activate):
        machine.types(line)
    machine.works()
    machine.types(update if way != "package" else package.replace("install", "install --force-reinstall --no-deps"))
    assert "context.engine lcm" in machine.types("hermes lcm status")
    for line in leave:
        machine.types(line)

    assert not PLUGIN_ROW.search(machine.types("hermes plugins list").replace("not enabled", ""))
    assert "engine: compressor" in machine.types("cat ~/.hermes/config.yaml")


def test_no_shell_command_of_the_pages_is_left_out() -> None:
    """What is not typed above is a setting, the demo, which a slow test runs, or measures for long."""
    assert lines("README.md")[2:] == ["./scripts/demo"]
    assert len(lines("docs/install.md")) == 8
    others = [path for path in (REPOSITORY / "docs").glob("*.md") if path.name != "install.md"]
    assert [
        line
        for page in others
        for line in lines(f"docs/{page.name}")
        if not line.startswith(("export LCM_", "scripts/bench", "scripts/conformance"))
    ] == []


@pytest.mark.slow
def test_the_demo_of_the_readme() -> None:
    """It checks itself and says so."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "LCM_"))}
    done = subprocess.run(
        ["./scripts/demo"], cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=600, check=False
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "== Everything held" in done.stdout
