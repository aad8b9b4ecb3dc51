"""The architecture of docs/design.md, enforced: imports point down, and some things happen in one place only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Room: the rooms that it may import. A room is a package, or a module of the root. The order is that of the floors.
MAY_IMPORT = {
    "__init__": "host plugin",
    "plugin": "command config engine errors host ingest ops recall records runtime search session storage terminal text",
    "terminal": "command dashboard errors ops recall text",
    "dashboard": "command compaction config errors exam host ledger ops prompt recall records runtime session store "
    "text tools",
    "engine": "archive compaction config errors host ingest records runtime schemas search session tools",
    "tools": "command errors ingest ops ops.doctor recall records runtime schemas search",
    "command": "config errors exam fleet host importers ops ops.doctor ops.forget recall runtime search session text",
    "exam": "compaction errors ops prompt recall records session storage store text",
    "runtime": "archive compaction config dag errors fleet host importers ingest ledger llm ops ops.forget prompt recall records "
    "search session storage store text",
    "fleet": "archive config errors importers ops ops.forget recall records search session storage store text",
    "ops.forget": "compaction errors llm ops ops.doctor recall records search session storage store text",
    "ops.doctor": "config dag errors ingest ops recall records search session storage store text",
    "importers": "archive config dag errors host ingest ops recall records search session storage store text",
    "ops": "archive compaction config dag errors host ingest ledger recall records search session storage store text",
    "compaction": "archive config dag errors ingest llm prompt records search session storage store text",
    "recall": "archive config dag errors ingest ledger llm prompt records schemas search session storage store text",
    "archive": "dag ingest prompt records search session storage store text",
    "prompt": "ingest ledger records session store text",
    "ledger": "dag records storage store text",
    "ingest": "config dag errors records session storage store text",
    "dag": "errors records search storage text",
    "llm": "errors records search text",
    "store": "errors records search session storage text",
    "search": "errors records session storage text",
    "session": "errors storage",
    "host": "errors text",
    "storage": "errors records text",
    "text": "records",
    "config": "",
    "errors": "",
    "records": "",
    "schemas": "",
}

HOST = {
    *("agent", "cron", "gateway", "hermes_cli", "hermes_constants", "hermes_state", "model_tools", "run_agent"),
    *("tools", "toolsets", "utils"),
}

MAY_IMPORT_HOST = {"__init__", "engine", "host", "plugin", "llm.client"}
MAY_READ_ENVIRONMENT = {"config", "host.facts"}
MAY_CATCH_ALL = {
    *(
        "engine",
        "fleet.background",
        "host.facts",
        "compaction.compactor",
        "plugin.registration",
        "plugin.hooks",
        "llm.client",
        "search.semantic",
    ),
}
ROOT_FILES = 12


def _modules() -> dict[str, Path]:
    packages = [path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name not in ("tests", "benchmarks")]
    paths = [*ROOT.glob("*.py"), *(path for folder in packages for path in folder.rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(paths)}


MODULES = _modules()
_KINDS = (ast.Import, ast.ImportFrom, ast.Attribute, ast.ExceptHandler, ast.FunctionDef, ast.AsyncFunctionDef)
NODES = {
    module: [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, _KINDS)]
    for module, path in MODULES.items()
}


def room(module: str) -> str:
    """The package of a module; a module of the root is its own room."""
    return module.rpartition(".")[0] or module


def own_imports(module: str) -> Iterator[str]:
    """Dotted names inside the package that a module imports: at the top, in functions, under ``TYPE_CHECKING``."""
    for node in NODES[module]:
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        package = module.split(".")[: -node.level]
        base = [*package, *(node.module or "").split(".")] if node.module else package
        for alias in node.names:
            deeper = ".".join([*base, alias.name])
            yield deeper if deeper in MODULES or not base else ".".join(base)


@cache
def foreign_imports(module: str) -> set[str]:
    """Dotted names that a module imports from outside."""
    found = set[str]()
    for node in NODES[module]:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def importers_of(names: set[str]) -> set[str]:
    """Modules that import one of these packages."""
    return {module for module in MODULES if names & {name.split(".")[0] for name in foreign_imports(module)}}


def imported_rooms() -> dict[str, set[str]]:
    """Rooms and the rooms that their modules import."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        if not module.endswith(".__init__"):
            found.setdefault(room(module), set()).update({room(name) for name in own_imports(module)} - {room(module)})
    return found


def _catches_all(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    broad = any(name is None or ast.unparse(name) in ("Exception", "BaseException") for name in names)
    last = handler.body[-1]  # a handler that cleans up and raises again hides nothing
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in ("environ", "getenv") for alias in node.names)
    known = isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")
    return known and ast.unparse(node).startswith("os.")


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_rooms_import_what_the_table_says() -> None:
    """A room that is not in the table fails, and so does an import that is not in it."""
    found = imported_rooms()

    assert set(found) == set(MAY_IMPORT)
    assert {name: extra for name, below in found.items() if (extra := below - set(MAY_IMPORT[name].split()))} == {}


def test_imports_point_down() -> None:
    """Each room imports rooms that stand below it in the table: so there is no circle."""
    order = list(MAY_IMPORT)
    pairs = [(name, other) for name, below in MAY_IMPORT.items() for other in below.split()]

    assert [pair for pair in pairs if order.index(pair[1]) <= order.index(pair[0])] == []


def test_modules_of_a_room_import_no_circle() -> None:
    """Inside a package, too, imports have an order."""
    graph = {module: set(own_imports(module)) for module in MODULES}
    while free := {module for module, below in graph.items() if not below & set(graph)}:
        graph = {module: below for module, below in graph.items() if module not in free}

    assert graph == {}


def test_the_root_holds_few_files() -> None:
    """The design card's names and what everybody shares; all else is in packages."""
    assert len(list(ROOT.glob("*.py"))) <= ROOT_FILES


def test_a_package_says_in_one_line_what_it_is() -> None:
    """``__init__.py`` holds that line and nothing else."""
    texts = {module: MODULES[module].read_text(encoding="utf-8") for module in MODULES if module.endswith(".__init__")}

    assert {module for module, text in texts.items() if not re.fullmatch(r'"""[A-Z][^"\n]+\."""\n', text)} == set()


def test_own_imports_are_relative() -> None:
    """The host imports the folder under a name of its own, so `hermes_lcm` need not exist."""
    assert importers_of({"hermes_lcm"}) == set()


def test_only_storage_knows_sqlite() -> None:
    """One package owns connections, transactions and the translation of SQLite's errors."""
    assert {room(module) for module in importers_of({"sqlite3"})} == {"storage"}


def test_only_the_boundary_knows_the_host() -> None:
    """Everything else works and is tested without the host."""
    assert {module for module in importers_of(HOST) if not {module, room(module)} & MAY_IMPORT_HOST} == set()


def test_no_module_reaches_the_network() -> None:
    """docs/security.md says so: models are reached through the host's client only."""
    network = {"aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "ssl", "urllib", "urllib3"}
    found = {name for module in MODULES for name in foreign_imports(module) if name.split(".")[0] in network}

    assert found <= {"urllib.parse.quote", "urllib.parse.unquote"}


def test_only_the_fleet_knows_the_shared_server() -> None:
    """Its driver is imported where a connection is asked for, and nowhere else."""
    assert {room(module) for module in importers_of({"psycopg", "psycopg_pool"})} == {"fleet"}


def test_only_config_and_host_read_the_environment() -> None:
    """A setting that is read elsewhere is neither documented nor checked."""
    found = {module for module, nodes in NODES.items() if any(map(_reads_environment, nodes))}

    assert found <= MAY_READ_ENVIRONMENT


def test_only_the_boundary_catches_everything() -> None:
    """Inside, a failure has a type."""
    handlers = [
        (module, node)
        for module, nodes in NODES.items()
        for node in nodes
        if isinstance(node, ast.ExceptHandler) and module not in MAY_CATCH_ALL
    ]

    assert [(module, each.lineno) for module, each in handlers if _catches_all(each)] == []


def test_functions_are_short() -> None:
    """No function over 50 lines: when it hurts, a concept is missing."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [(module, node) for module, nodes in NODES.items() for node in nodes if isinstance(node, kinds)]

    assert [f"{module}.{each.name}: {_length(each)}" for module, each in functions if _length(each) > 50] == []


def test_the_map_of_the_design_shows_every_room() -> None:
    """Whoever reads docs/design.md finds each package and each module of the root."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"\w+(?:/\w+)?", page.split("```text", 1)[1].split("```", 1)[0]))

    assert {name.replace(".", "/") for name in MAY_IMPORT} - {"__init__"} <= drawn
