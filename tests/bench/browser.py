"""A headless Chromium driven by chromedriver over plain HTTP (the W3C WebDriver protocol)."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

DRIVER = shutil.which("chromedriver")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


class Browser:
    """One session; `run` evaluates JavaScript in the page."""

    def __init__(self, base: str, width: int, height: int) -> None:
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        options = {"args": [*arguments, f"--window-size={width},{height}"], "binary": CHROMIUM}
        if width < 500:
            # Windows cannot be that narrow; a phone can.
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2.0}}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._base = base
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"/session/{made['sessionId']}"

    def _call(self, verb, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=verb)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path: Path) -> None:
        self._call("POST", f"{self._session}/url", {"url": path.resolve().as_uri()})

    def prefer(self, scheme: str) -> None:
        """Ask for "light" or "dark" pages."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        body = {"cmd": "Emulation.setEmulatedMedia", "params": wanted}
        self._call("POST", f"{self._session}/goog/cdp/execute", body)

    def run(self, script: str, *arguments):
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str) -> None:
        """A click of the mouse, which fails on what is hidden or covered."""
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        element = next(iter(found.values()))
        self._call("POST", f"{self._session}/element/{element}/click", {})

    def console(self) -> list[str]:
        """Errors and warnings of the console so far."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def close(self) -> None:
        self._call("DELETE", self._session)


@contextlib.contextmanager
def browser(width: int = 1280, height: int = 900):
    """Start chromedriver and a session of the given size."""
    assert DRIVER is not None, "tests marked `browser` need chromedriver on the path"
    assert CHROMIUM is not None, "tests marked `browser` need Chromium on the path"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([DRIVER, f"--port={port}", "--log-level=OFF"], stdout=subprocess.DEVNULL) as driver:
        try:
            base = f"http://127.0.0.1:{port}"
            for _ in range(200):
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    urllib.request.urlopen(f"{base}/status", timeout=5).close()
                    break
                time.sleep(0.1)
            session = Browser(base, width, height)
            try:
                yield session
            finally:
                session.close()
        finally:
            driver.terminate()
