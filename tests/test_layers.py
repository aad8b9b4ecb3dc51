"""The architecture of docs/design.md, enforced: imports point down, and some things happen in one place only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A folder's name stands for all modules in it. A new module at the top needs a place in here and in docs/design.md.
LAYERS = {
    8: "__init__ registration prototype",
    7: "engine hooks",
    6: "tools command cli binding outgoing boundary",
    5: "runtime swap plain views",
    4: "ingest door compact prepare collect upkeep stubbing assemble state retrieve answer caller evidence finding overview"
    " archive archiving sources ops",
    3: "store blocks cold logs search indexing bounds dag archives session health metrics payloads scope reading"
    " opening thread llm",
    2: "db",
    1: "config schemas text host align plan calibration columns windows crew request_view late patience prices",
    0: "errors records durable",
}
RANK = {name: layer for layer, names in LAYERS.items() for name in names.split()}
FOLDERS = [name for name in RANK if (ROOT / name).is_dir()]

# Composed by swap, tools and engine, never by each other.
FLOWS = [{"ingest"}, {"compact"}, {"assemble"}, {"retrieve", "answer", "caller", "evidence", "finding", "overview"}]
HOST = {
    *("agent", "cron", "gateway", "hermes_cli", "hermes_constants", "hermes_state", "model_tools", "run_agent"),
    *("tools", "toolsets", "utils"),
}

MAY_IMPORT_HOST = {"__init__", "prototype", "engine", "host", "llm.client"}
MAY_READ_ENVIRONMENT = {"config", "host"}
MAY_CATCH_ALL = {"boundary", "crew", "registration", "engine", "hooks", "llm.client"}


def _modules() -> dict[str, Path]:
    paths = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(paths)}


MODULES = _modules()
every_module = pytest.mark.parametrize("module", MODULES)


def rank(module: str) -> int:
    """The layer of a module; what has none stands above everything."""
    return RANK.get(module.partition(".")[0], 99)


def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def _runs(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING``, which do not exist at run time."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from _runs(child)


def own_imports(module: str) -> Iterator[str]:
    """Dotted names inside the package that a module imports, at the top or in functions."""
    for node in _runs(_tree(module)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        package = module.split(".")[: -node.level]
        base = [*package, *(node.module or "").split(".")] if node.module else package
        for alias in node.names:
            deeper = ".".join([*base, alias.name])
            yield deeper if deeper in MODULES or not base else ".".join(base)


def foreign_imports(module: str) -> Iterator[str]:
    """First parts of the names that a module imports from outside."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def _catches_all(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    broad = any(name is None or ast.unparse(name) in ("Exception", "BaseException") for name in names)
    last = handler.body[-1]  # a handler that cleans up and raises again hides nothing
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in ("environ", "getenv") for alias in node.names)
    return isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb")


@every_module
def test_no_module_reaches_the_network(module: str) -> None:
    """docs/security.md says so: models are reached through the host's client only."""
    dotted = {
        f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
        for alias in node.names
    }
    network = {
        "aiohttp",
        "ftplib",
        "http",
        "httpx",
        "requests",
        "smtplib",
        "socket",
        "ssl",
        "urllib",
        "urllib3",
    }
    assert {name for name in dotted if name.split(".")[0] in network} <= {"urllib.parse.quote"}


@every_module
def test_every_module_has_a_layer(module: str) -> None:
    """A module that nobody placed has no rules."""
    assert rank(module) < 99, f"add {module} to LAYERS and to docs/design.md"


@every_module
def test_a_module_name_stands_for_one_module(module: str) -> None:
    """Whoever says a module's name need not say its folder."""
    name = module.rpartition(".")[2]

    assert name == "__init__" or [other for other in MODULES if other.rpartition(".")[2] == name] == [module]


@every_module
def test_imports_point_down(module: str) -> None:
    """A module imports only from its own layer or the ones below."""
    above = [name for name in own_imports(module) if rank(name) > rank(module)]

    assert above == []


@every_module
def test_flows_never_know_each_other(module: str) -> None:
    """Ingest, compact, assemble and retrieve never import each other."""
    own = next((flow for flow in FLOWS if module in flow), None)
    others = set().union(*(flow for flow in FLOWS if flow is not own)) if own else set()

    assert others.isdisjoint(own_imports(module))


@every_module
def test_own_imports_are_relative(module: str) -> None:
    """The host imports the folder under a name of its own, so `hermes_lcm` need not exist."""
    assert "hermes_lcm" not in foreign_imports(module)


@every_module
def test_only_db_knows_sqlite(module: str) -> None:
    """One package owns connections, transactions and the translation of SQLite's errors."""
    assert module.startswith("db.") or "sqlite3" not in foreign_imports(module)


@every_module
def test_only_the_boundary_knows_the_host(module: str) -> None:
    """Everything else works and is tested without the host."""
    assert module in MAY_IMPORT_HOST or HOST.isdisjoint(foreign_imports(module))


@every_module
def test_only_config_and_host_read_the_environment(module: str) -> None:
    """A setting that is read elsewhere is neither documented nor checked."""
    found = [node for node in ast.walk(_tree(module)) if _reads_environment(node)]

    assert module in MAY_READ_ENVIRONMENT or found == []


@every_module
def test_only_the_boundary_catches_everything(module: str) -> None:
    """Inside, a failure has a type."""
    handlers = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.ExceptHandler)]
    broad = [handler.lineno for handler in handlers if _catches_all(handler)]

    assert module in MAY_CATCH_ALL or broad == []


@every_module
def test_budget(module: str) -> None:
    """No file over 500 lines, no function over 50: when it hurts, a concept is missing."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [node for node in ast.walk(_tree(module)) if isinstance(node, kinds)]
    long = [f"{each.name} ({_length(each)})" for each in functions if _length(each) > 50]
    lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())

    assert long == []
    assert lines <= 500


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_the_design_shows_the_same_layers() -> None:
    """Whoever reads docs/design.md reads what is enforced here."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").split("## Layers", 1)[1]
    block = "\n".join(re.findall(r"^    (\d .*)$", text.replace("\n      ", " "), re.MULTILINE))
    drawn = {
        name.strip("/*"): int(layer) for layer, names in re.findall(r"(\d) ([^|\n]+)", block) for name in names.split()
    }

    assert {name: RANK.get(name) for name in drawn} == drawn
    assert len(drawn) > 20
