"""A headless Chromium, by the W3C WebDriver protocol: JSON over HTTP."""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu",
          "--disable-dev-shm-usage", "--window-size=900,900")  # fmt: skip
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def find_browser():
    """The paths of Chromium and its driver, or None."""
    found = [path for name in _BROWSERS if (path := shutil.which(name))]
    driver = shutil.which("chromedriver")
    return (found[0], driver) if found and driver else None


class Browser:
    """One page; the profile and the driver's log lie in a folder."""

    def __init__(self, browser, driver, folder):
        path = folder / "driver.log"
        log = path.open("w")
        # The driver says itself which port it found free.
        self._process = subprocess.Popen(
            [driver, "--port=0"], stdout=log, stderr=log
        )
        arguments = [*_FLAGS, f"--user-data-dir={folder / 'user'}"]
        options = {"binary": browser, "args": arguments}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        try:
            started = re.compile(r"successfully on port (\d+)")
            found = _wait(lambda: started.search(path.read_text()))
            self._base = f"http://127.0.0.1:{found[1]}/session"
            created = self._ask("", capabilities={"alwaysMatch": wanted})
        except BaseException:
            self._process.kill()
            raise
        self._base += f"/{created['sessionId']}"

    def close(self):
        try:
            self._ask("", "DELETE")
        finally:
            self._process.terminate()
            self._process.wait(10)

    def open(self, url):
        self._ask("/url", url=url)

    def run(self, script):
        return self._ask("/execute/sync", script=script, args=[])

    def act(self, selector, action, **arguments):
        """Lets a user `click` an element, `clear` it, or type its `value`."""
        found = self._ask("/element", using="css selector", value=selector)
        self._ask(f"/element/{found[_ELEMENT]}/{action}", **arguments)

    def wait(self, condition):
        """Waits until a JavaScript expression is true."""
        _wait(lambda: self.run(f"return Boolean({condition})"))

    def _ask(self, path, method="POST", **body):
        headers = {"Content-Type": "application/json"}
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(
            self._base + path, data, headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error


def _wait(find):
    for _ in range(600):
        if found := find():
            return found
        time.sleep(0.1)
    raise TimeoutError("it never became true")
