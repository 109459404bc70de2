#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives credentials as an instance's metadata service, a container's agent and a token
service do, to those that ask as each of them wants.  metadata-server.py PORT-FILE."""
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

ROLES = "/latest/meta-data/iam/security-credentials/"
KEYS = {"AccessKeyId": "testkey1234", "SecretAccessKey": "testsecret1234",
        "Expiration": "2099-01-01T00:00:00Z"}
STS = ("<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
       "{}</Credentials></AssumeRoleWithWebIdentityResult>"
       "</AssumeRoleWithWebIdentityResponse>")


class Metadata(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def say(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        asked = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self.say(200 if self.path == "/latest/api/token" and asked else 400, "session\n")

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        session = self.headers.get("X-aws-ec2-metadata-token") == "session"
        if self.path == ROLES and session:
            self.say(200, "role\n")
        elif self.path == ROLES + "role" and session:
            self.say(200, json.dumps(KEYS))
        elif self.path == "/agent" and self.headers.get("Authorization") == "pod-token":
            self.say(200, json.dumps(KEYS))
        elif query.get("WebIdentityToken") == ["web-token"]:
            self.say(200, STS.format("".join(f"<{k}>{v}</{k}>" for k, v in KEYS.items())))
        else:
            self.say(403, "")


with HTTPServer(("127.0.0.1", 0), Metadata) as server:
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write(f"{server.server_address[1]}\n")
    server.serve_forever()
