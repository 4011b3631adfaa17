"""A browser to test a page with: the W3C WebDriver protocol, as far as needed.

chromedriver speaks it as JSON over HTTP, so the standard library suffices.
"""

import json
import pathlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from typing import Any

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=900,900",
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_TRIES = 600


def find_browser() -> tuple[str, str] | None:
    """The paths of Chromium and its driver, or None."""
    found = [path for name in _BROWSERS if (path := shutil.which(name))]
    driver = shutil.which("chromedriver")
    return (found[0], driver) if found and driver else None


class Browser:
    """A headless Chromium with one page; its profile lies in a folder."""

    def __init__(self, browser: str, driver: str, folder: pathlib.Path) -> None:
        self._log = folder / "driver.log"
        log = self._log.open("w+")
        # It says itself which port it found free.
        self._process = subprocess.Popen(
            [driver, "--port=0"], stdout=log, stderr=log
        )
        options = {
            "binary": browser,
            "args": [*_FLAGS, f"--user-data-dir={folder / 'user'}"],
        }
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        try:
            self._base = f"http://127.0.0.1:{self._wait_for_port()}"
            created = self._ask(
                "POST", "/session", {"capabilities": {"alwaysMatch": wanted}}
            )
        except BaseException:
            self._process.kill()
            raise
        self._base += f"/session/{created['sessionId']}"

    def close(self) -> None:
        """Ends browser and driver."""
        try:
            self._ask("DELETE", "")
        finally:
            self._process.terminate()
            self._process.wait(10)

    def open(self, url: str) -> None:
        """Loads a page."""
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str) -> Any:
        """Returns what a script on the page returns."""
        return self._ask(
            "POST", "/execute/sync", {"script": script, "args": []}
        )

    def type(self, selector: str, text: str) -> None:
        """Types into an element, key by key."""
        self._ask("POST", f"{self._find(selector)}/value", {"text": text})

    def clear(self, selector: str) -> None:
        """Empties a field."""
        self._ask("POST", f"{self._find(selector)}/clear", {})

    def click(self, selector: str) -> None:
        """Clicks an element that can be seen."""
        self._ask("POST", f"{self._find(selector)}/click", {})

    def wait(self, condition: str) -> None:
        """Waits until a JavaScript expression is true."""
        for _ in range(_TRIES):
            if self.run(f"return Boolean({condition})"):
                return
            time.sleep(0.1)
        raise TimeoutError(f"{condition} never became true")

    def _find(self, selector: str) -> str:
        found = self._ask(
            "POST", "/element", {"using": "css selector", "value": selector}
        )
        return f"/element/{found[_ELEMENT]}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self._base + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def _wait_for_port(self) -> str:
        for _ in range(_TRIES):
            _, found, rest = self._log.read_text().rpartition("on port ")
            if found and "." in rest:
                return rest.split(".")[0]
            time.sleep(0.1)
        raise TimeoutError("chromedriver did not start")
