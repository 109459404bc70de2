#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""openapi-check.py URL TOKEN: hold a running service to its /v1/openapi.json."""
import http.client
import json
import sys
import urllib.parse

HOST = urllib.parse.urlsplit(sys.argv[1]).netloc
TOKEN = sys.argv[2]
GOOD = {
    "key": "ab" * 32,
    "digest": "sha256:" + "ab" * 32,
    "workload": "train",
    "repo": "host/app",
    "exact": "0",
    "Bootseer-Predict": "0",
    "class": "full",
    "limit": "10",
    "Bootseer-Node": "n1",
    "image": "sha256:" + "cd" * 32,
    "node": "n1",
    "id": "7",
    "job": "team/run-1",
    "clock": "1a2b:-5:10:3",
    "label": "team.x",
    "format": "csv",
    "by": "label",
    "days": "7",
    "with": "8",
    "begins": "ab12",
    "after": "sha256:" + "ab" * 32,
    "generation": "9",
    "capture": "ab" * 16,
    "failed": "1",
    "artifact": "sha256:" + "cd" * 32,
    "part": "3",
    "parts": "4",
    "offer": "7",
    "registry": "reg.example:5000",
    "worker": "w1",
    "try": "2",
    "Bootseer-Pull": "Basic dXNlcjpzZWNyZXQ=",
}
BAD = {
    "key": "x",
    "digest": "sha256:x",
    "workload": "a b",
    "repo": "a b",
    "exact": "2",
    "Bootseer-Predict": "2",
    "class": "x",
    "limit": "0",
    "Bootseer-Node": "a b",
    "image": "a b",
    "node": "a b",
    "id": "x",
    "job": "a b",
    "clock": "1a2b:5",
    "label": "a b",
    "format": "xml",
    "by": "week",
    "days": "0",
    "with": "x",
    "begins": "AB",
    "after": "x",
    "generation": "x",
    "capture": "ab",
    "failed": "2",
    "artifact": "x",
    "part": "x",
    "parts": "x",
    "offer": "x",
    "registry": "http://reg.example",
    "worker": "a b",
    "try": "x",
    "Bootseer-Pull": "x" * 9000,
}
checks = 0


def send(method, path, params, token=TOKEN, drop=None, bad=None, extra=None):
    """A request with all parameters but `drop`, a wrong `bad`, and `extra`."""
    query, headers = [], {}
    for p in params:
        value = BAD[p["name"]] if p["name"] == bad else GOOD[p["name"]]
        if p["in"] == "path":
            path = path.replace("{%s}" % p["name"], urllib.parse.quote(value))
        elif p["name"] == drop:
            continue
        elif p["in"] == "query":
            query.append((p["name"], value))
        else:
            headers[p["name"]] = value
    query += extra or []
    if token:
        headers["Authorization"] = "Bearer " + token
    body = b"no trace" if method == "POST" else None
    c = http.client.HTTPConnection(HOST, timeout=20)
    c.request(method, path + ("?" + urllib.parse.urlencode(
        query, quote_via=urllib.parse.quote) if query
                              else ""), body, headers)
    answer = c.getresponse()
    text = answer.read()
    c.close()
    return answer, text


def expect(what, op, answer, text, status=None):
    global checks
    checks += 1
    said = op["responses"].get(str(answer.status))
    assert said, "%s: %d is not described" % (what, answer.status)
    assert status in (None, answer.status), "%s: %d, wanted %d" % (
        what, answer.status, status)
    kind = (answer.headers.get("Content-Type") or "").split(";")[0]
    if answer.status >= 400:
        error = json.loads(text)["error"]
        assert error["code"] and error["message"], what
        assert kind == "application/json", what
    elif "content" in said:
        assert kind in list(said["content"]) + ["application/json"], what


def check(path, method, op):
    params = op["parameters"]
    what = "%s %s" % (method, path)
    expect(what, op, *send(method, path, params))
    for p in params:
        assert p["name"] in GOOD, "no example of " + p["name"]
        expect(what + " bad " + p["name"], op,
               *send(method, path, params, bad=p["name"]), status=400)
        if p["required"] and p["in"] != "path":
            expect(what + " without " + p["name"], op,
                   *send(method, path, params, drop=p["name"]), status=400)
    expect(what + " unknown", op,
           *send(method, path, params, extra=[("x", "1")]), status=400)
    expect(what + " twice", op, *send(
        method, path, params, extra=[("x", "1"), ("x", "1")]), status=400)
    if op["security"]:
        expect(what + " no token", op,
               *send(method, path, params, token=None), status=401)
        expect(what + " bad token", op,
               *send(method, path, params, token="wrong"), status=401)
    else:
        expect(what + " open", op, *send(method, path, params, token=None))


def main():
    answer, text = send("GET", "/v1/openapi.json", [])
    assert answer.status == 200
    doc = json.loads(text)
    assert doc["openapi"].startswith("3.0.")
    ids = set()
    for path, item in doc["paths"].items():
        for method, op in item.items():
            assert op["operationId"] not in ids
            ids.add(op["operationId"])
            check(path, method.upper(), op)
        params = next(iter(item.values()))["parameters"]
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            if method.lower() in item:
                continue
            answer, text = send(method, path, params)
            assert answer.status == 405, (method, path, answer.status)
            assert method not in answer.headers["Allow"]
    print("%d operations, %d checks" % (len(ids), checks))


main()
