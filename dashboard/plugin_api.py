"""
Routes of the tab: every request goes to ``api`` in the package of the plugin.

The host loads this file by its path and without a package. So the package is found by its folder, at the first request: the
copy that the host's own plugin loader made, if there is one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

router = APIRouter()
_ALONE = "hermes_lcm_of_dashboard"


@router.get("/{page}")
def look(page: str, request: Request) -> Response:
    """One page of data. Runs in a thread, because it reads a database."""
    return _answer(request, page, request.query_params)


@router.post("/run")
def act(request: Request, typed: Annotated[dict[str, Any], Body()]) -> Response:
    """One verb of ``hermes lcm``: what it says, or would do."""
    return _answer(request, "run", {**typed, "profile": request.query_params.get("profile", "")})


def _answer(request: Request, page: str, given: Mapping[str, Any]) -> Response:
    # A host that listens beyond this machine asks for a login: then others than its operator may look.
    shared = bool(getattr(request.app.state, "auth_required", False))
    status, text = importlib.import_module(f"{_package()}.dashboard.api").answer(page, given, shared=shared)
    return Response(text.encode(), status, media_type="application/json")


@cache
def _package() -> str:
    """Name of the plugin's package in this process."""
    root = Path(__file__).resolve().parents[1]
    for name, module in list(sys.modules.items()):
        file = vars(module).get("__file__") or "" if module is not None else ""
        if file.endswith("__init__.py") and "register" in vars(module) and Path(file).resolve().parent == root:
            return name
    spec = importlib.util.spec_from_file_location(_ALONE, root / "__init__.py", submodule_search_locations=[str(root)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{root} holds no plugin")
    sys.modules[_ALONE] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _ALONE
