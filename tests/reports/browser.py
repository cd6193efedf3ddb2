"""Drives a Chromium without a window over its debugging pipe: loads pages, presses keys, takes pictures."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

DEADLINE_S = 60


def chromium() -> str | None:
    """The command, None if there is none here."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class BrowserError(Exception):
    """What the page threw, or what Chromium refused."""


class Browser:
    """One tab. `requests` has the address of everything that the page asked for."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def place_pipes() -> None:
            kept = os.dup(to_browser), os.dup(from_browser)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        command = [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        command += ["--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [*command, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place_pipes,  # noqa: PLW1509 (Chromium wants its pipe at descriptors 3 and 4)
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._events = []
        self._session = None
        self.requests = []
        self.errors = []
        target = next(one for one in self._call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait(DEADLINE_S)

    def open(
        self, page: Path, width: int = 1280, height: int = 900, *, dark: bool = False, script: bool = True
    ) -> float:
        """Load a page; return how long that took, in seconds."""
        self.requests.clear()
        self.errors.clear()
        self._call("Emulation.setScriptExecutionDisabled", value=not script)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.resize(width, height)
        began = time.monotonic()
        self._events.clear()
        self._call("Page.navigate", url=page.as_uri())
        self._wait("Page.loadEventFired")
        if script:  # two frames, so that all is drawn
            self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - began

    def resize(self, width: int, height: int) -> None:
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def emulate_print(self) -> None:
        self._call("Emulation.setEmulatedMedia", media="print", features=[])

    def run(self, expression: str):
        """The value of an expression in the page."""
        found = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(found["exceptionDetails"].get("exception", found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self._call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self._drawn()

    def wheel(self, x: float, y: float, down: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=down)
        self._drawn()

    def move(self, x: float, y: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self._drawn()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        mouse = "Input.dispatchMouseEvent"
        self._call(mouse, type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        for share in (0.2, 0.4, 0.6, 0.8, 1.0):
            x, y = (a + (b - a) * share for a, b in zip(start, end, strict=True))
            self._call(mouse, type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self._call(mouse, type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)
        self._drawn()

    def picture(self, to: Path, clip: dict | None = None) -> Path:
        """Store what is seen, or the given part of the page, as a PNG."""
        more = {} if clip is None else {"clip": {**clip, "scale": 1}, "captureBeyondViewport": True}
        to.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png", **more)["data"]))
        return to

    def printed(self, to: Path) -> Path:
        """Store the page as a PDF."""
        data = self._call("Page.printToPDF", printBackground=True)["data"]
        to.write_bytes(base64.b64decode(data))
        return to

    def _drawn(self) -> None:
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def _call(self, method: str, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(answer["error"])
                return answer["result"]

    def _wait(self, method: str) -> None:
        while method not in self._events:
            self._next()

    def _next(self) -> dict:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            if not part:
                raise BrowserError("Chromium has ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        method = message.get("method")
        if method is not None:
            self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if method == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"])
        return message


@contextmanager
def browsing(profile: Path):
    """A browser for as long as the block lasts."""
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.close()
