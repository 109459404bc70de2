#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A browser for the views of a test: browser.py FOLDER

Chromium starts once, which is most of what a view costs.  Each line of the FIFO FOLDER/ask
is an address, after a tab optionally "dark" or "light"; the FIFO FOLDER/answer then has the
page as it is when all of its requests are answered, and FOLDER/said what the page's console
has of it.  Chromium speaks the DevTools protocol by a pipe, and ends with this process."""
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time

TIMEOUT = 120  # seconds that an answer may take
VIRTUAL_MS = 20000  # what a page's own clocks have, however fast the machine is
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--window-size=1280,6000", "--remote-debugging-pipe")


class Browser:
    def __init__(self, folder):
        asks, self.to = self.high_pipe()
        self.of, answers = self.high_pipe()
        self.said = open(f"{folder}/said", "a", buffering=1)
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{asks} 4>&{answers}', "bash", "chromium", *OPTIONS,
             f"--user-data-dir={folder}/profile"], stdin=subprocess.DEVNULL,
            stdout=self.said, stderr=self.said, pass_fds=(asks, answers))
        os.close(asks)
        os.close(answers)
        self.rest, self.events, self.number = b"", [], 0

    @staticmethod
    def high_pipe():
        """Above the descriptors 3 and 4, where Chromium wants its own."""
        ends = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in ends]
        for fd in ends:
            os.close(fd)
        return high

    def receive(self):
        while b"\0" not in self.rest:
            left = self.end - time.monotonic()
            if not select.select([self.of], [], [], max(left, 0))[0]:
                sys.exit("chromium does not answer")
            part = os.read(self.of, 1 << 20)
            if not part:
                sys.exit("chromium has ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
                                     "Log.entryAdded"):
            print(json.dumps(message["params"]), file=self.said)
        return message

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (got := self.receive()).get("id") != self.number:
            self.events.append(got.get("method"))
        if "error" in got:
            sys.exit(f"{method}: {got['error']}")
        return got["result"]

    def wait_for(self, event):
        while event not in self.events:
            self.events.append(self.receive().get("method"))

    def view(self, address, scheme):
        """The page in a tab of its own."""
        self.end, self.events = time.monotonic() + TIMEOUT, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        tab = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log":
            self.call(f"{domain}.enable", tab)
        if scheme:
            self.call("Emulation.setEmulatedMedia", tab, features=[
                {"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setVirtualTimePolicy", tab, policy="pause")
        self.call("Page.navigate", tab, url=address)
        self.call("Emulation.setVirtualTimePolicy", tab, budget=VIRTUAL_MS,
                  policy="pauseIfNetworkFetchesPending")
        self.wait_for("Emulation.virtualTimeBudgetExpired")
        page = self.call("Runtime.evaluate", tab, returnByValue=True,
                         expression="document.documentElement.outerHTML")
        self.call("Target.closeTarget", targetId=target)
        return page["result"]["value"]


def main():
    folder = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    browser = Browser(folder)
    try:
        while True:
            with open(f"{folder}/ask") as f:
                address, _, scheme = f.readline().rstrip("\n").partition("\t")
            page = browser.view(address, scheme)
            with open(f"{folder}/answer", "w") as f:
                f.write(page)
    finally:
        browser.process.kill()
        browser.process.wait()


main()
