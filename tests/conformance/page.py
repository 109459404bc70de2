# SPDX-License-Identifier: Apache-2.0
"""page.py axe|frames AXE_JS SERVICE VIEW...: what a browser finds out about views.

A proxy in front of SERVICE puts a script into the page, which its own
Content-Security-Policy would not let in, and takes what that script says: one line of
JSON for each view.  It ends with 1 when axe finds something, or a view is wider than its window.
"""
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

what, axe_js, service, views = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]

# What $MARKUP has is to be text; the page's own scripts are not in main.
SHOWN = "const MARKUP = " + json.dumps(os.environ["MARKUP"]).replace("<", "\\u003c") + """;
const until = async (is) => { while (!is()) await new Promise(requestAnimationFrame); };
const tell = (o) => fetch("/told?" + encodeURIComponent(JSON.stringify(o)));
"""
AXE = """
await until(() => document.body.dataset.view !== undefined);
const found = await axe.run(document);
tell({ passes: found.passes.length, is_cut: document.documentElement.scrollWidth > innerWidth, is_text: main.textContent.includes(MARKUP),
    elements: main.querySelectorAll("img, script, b").length, violations: found.violations.map((v) =>
    [v.id, v.impact, v.nodes.length, v.nodes[0].html.slice(0, 200)]) });
"""
FRAMES = """
await until(() => document.querySelector(".bars"));
const box = document.querySelector(".bars");
const times = [];
let last = performance.now();
for (let i = 0; i < 240; i++) {
    box.scrollTop += 137;
    box.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" }));
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
}
times.sort((a, b) => a - b);
tell({ rows: box.scrollHeight / 18, scrolled: box.scrollTop, median_ms: times[120],
    p95_ms: times[228], max_ms: times[239] });
"""
# Seconds for a browser that starts with an empty profile and for its view: some seconds of
# processor time, on a machine that may have fifty programs for it.
PATIENCE = 300
told = []
came = threading.Event()


class Proxy(http.server.BaseHTTPRequestHandler):
    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/told":
            # The browser is killed as soon as it has told.
            self.answer(200, "text/plain", b"")
            told.append(json.loads(urllib.parse.unquote(query)))
            return came.set()
        if path == "/axe.js":
            with open(axe_js, "rb") as f:
                return self.answer(200, "text/javascript", f.read())
        try:
            a = urllib.request.urlopen(service + self.path)
        except urllib.error.HTTPError as e:
            a = e
        body = a.read()
        if path == "/":
            first = '<script src="/axe.js"></script>' if what == "axe" else ""
            script = AXE if what == "axe" else FRAMES
            body = body.replace(b"</body>", (
                f"{first}<script>(async () => {{ {SHOWN} {script} }})();</script></body>"
            ).encode())
        self.answer(a.status, a.headers["Content-Type"], body)

    def log_message(self, *_):
        pass


def browse(address, *options):
    came.clear()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--remote-debugging-port=0",
             "--user-data-dir=" + home, *options, address],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        is_told = came.wait(PATIENCE)
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
    return told[-1] if is_told else None


proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
ways = [("light", "1280,900", 1), ("dark", "1280,900", 0), ("phone", "500,900", 1)]
bad = False
for view in views:
    for name, size, scheme in ways if what == "axe" else ways[:1]:
        said = browse(f"http://127.0.0.1:{proxy.server_address[1]}/#{view}",
                      "--window-size=" + size,
                      f"--blink-settings=preferredColorScheme={scheme}")
        print(json.dumps({"view": view, "as": name, "said": said}), flush=True)
        bad = bad or not said or bool(said.get("violations")) or said.get("is_cut") or \
            said.get("passes") == 0 or said.get("scrolled") == 0
sys.exit(bad)
