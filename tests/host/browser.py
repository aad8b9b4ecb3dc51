"""
The host's dashboard in a real Chromium: a process of each, clicks and keys as the browser gets them from a person.

Speaks the DevTools protocol over ``websockets``, which the host brings along. Chromium is Debian's package.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from host.drive import Home

#: Without these a machine that is closed to the network sees many refused connections.
_QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
)
WAIT_S = 60.0
_KEYS = {
    "Enter": 13,
    "Tab": 9,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
}


def until(look: Any, what: str, seconds: float = WAIT_S) -> Any:
    """What ``look`` gives as soon as that is something. Raises AssertionError when it takes too long."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def dashboard(home: Home) -> Iterator[str]:
    """``hermes dashboard`` of a home; its address."""
    ready = home.path / "dashboard.json"
    command = [str(Path(sys.executable).with_name("hermes")), "dashboard", "--no-open", "--port", "0"]
    log = (home.path / "dashboard.log").open("w")
    process = subprocess.Popen(
        command, env=home.environment() | {"HERMES_DESKTOP_READY_FILE": str(ready)}, cwd=home.path,
        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        until(lambda: ready.exists() and ready.read_text().strip(), (home.path / "dashboard.log").read_text)
        yield f"http://127.0.0.1:{json.loads(ready.read_text())['port']}"
    finally:
        _end(process)
        log.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that may wait for connections which nobody closes any more; how it ends is the host's business."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Browser:
    """One page of a Chromium of its own."""

    def __init__(self, width: int = 1280, height: int = 860) -> None:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert found, "these tests need Chromium: apt install chromium"
        self._folder = tempfile.mkdtemp(prefix="lcm-chromium-")
        self._process = subprocess.Popen(
            [found, *_QUIET, f"--user-data-dir={self._folder}", "about:blank"], stderr=subprocess.DEVNULL
        )
        port = Path(self._folder) / "DevToolsActivePort"
        until(lambda: port.exists() and len(port.read_text().split()) == 2, "Chromium did not start")
        with urllib.request.urlopen(f"http://127.0.0.1:{port.read_text().split()[0]}/json") as answer:
            page = next(each for each in json.load(answer) if each["type"] == "page")
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None)
        self._number = 0
        self.errors: list[str] = []
        for domain in ("Page", "Runtime"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    def close(self) -> None:
        self._socket.close()
        _end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its result. What the page throws meanwhile is kept in ``errors``."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv(WAIT_S))
            if told.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(told["params"]["exceptionDetails"])[:600])
            if told.get("id") == self._number:
                assert "error" not in told, told
                return dict(told["result"])

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    # -- what a person does ------------------------------------------------------------------------------
    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def resize(self, width: int, height: int) -> None:
        mobile = width < 600
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def text(self) -> str:
        """What stands in the tab."""
        return str(self.js("(document.querySelector('.lcm') || document.body || {}).innerText || ''"))

    def sees(self, pattern: str) -> str:
        """Wait until the tab says something."""
        found = until(lambda: re.search(pattern, self.text()), lambda: f"{pattern!r} not in: {self.text()[:3000]}")
        return str(found[0])

    def place(self, selector: str, text: str = "") -> tuple[float, float]:
        """The middle of the first element of that kind that holds a text, scrolled into view; once it stands still."""
        script = f"""(() => {{
          const all = [...document.querySelectorAll({json.dumps(selector)})];
          const found = all.find((e) => e.innerText === undefined || e.innerText.includes({json.dumps(text)}));
          if (!found || found.disabled) return null;
          found.scrollIntoView({{block: "center"}});
          const at = found.getBoundingClientRect();
          return [at.x + at.width / 2, at.y + at.height / 2];
        }})()"""
        seen: list[Any] = [None]

        def still() -> Any:
            seen.append(self.js(script))
            return seen[-1] if seen[-1] == seen[-2] else None

        at = until(still, lambda: f"no {selector} with {text!r} in: {self.text()[:3000]}")
        return float(at[0]), float(at[1])

    def click(self, selector: str, text: str = "") -> None:
        self.click_at(*self.place(selector, text))

    def click_at(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name: str, **more: Any) -> None:
        code = _KEYS.get(name, ord(name.upper()[0]))
        text = {"text": "\r"} if name == "Enter" else {} if name in _KEYS else {"text": name}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **text, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code, **more)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A screenshot, PNG or WebP by its name; ``whole``: of all the page's height."""
        kind = {"format": "webp", "quality": 88} if path.suffix == ".webp" else {}
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole, **kind)
        path.write_bytes(base64.b64decode(shot["data"]))
