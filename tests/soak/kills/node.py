# SPDX-License-Identifier: Apache-2.0
"""The programs under test: a registry, bootseerd below its holder, and
bootseer-snapshotter, with everything in one folder; and their clients."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import grpc

from apart import Stuck, child_of, is_alive, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "../../containerd"))
from protobuf import decode, encode

CALL_TIMEOUT = 60  # seconds; an answer that takes longer is a finding
QUOTA = "64M"


class CallFailed(Exception):
    """A call that was answered with an error, or not at all."""

    def __init__(self, what, code=None):
        super().__init__(what)
        self.code = code


class Node:
    def __init__(self, folder, build, options):
        self.t = folder
        self.build = build
        self.options = options
        self.root, self.run = f"{folder}/root", f"{folder}/run"
        self.socket = f"{self.run}/bootseerd.sock"
        self.holder = self.plugin = self.daemon = self.channel = None
        self.serve()

    def start(self, log, *argv):
        with open(f"{self.t}/{log}", "ab") as out:
            return subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def serve(self):
        ports = f"{self.t}/ports"
        self.start("registry.log", f"{self.build}/tests/fakes/fake-registry",
                   "--dir", f"{self.t}/oci", "--port-file", ports)
        wait_for("the registry", lambda: os.path.exists(ports) and
                 os.path.getsize(ports))
        with open(ports) as f:
            self.registry = f"127.0.0.1:{f.read().split()[0]}"

    # --- bootseerd -------------------------------------------------------------

    def start_holder(self):
        self.holder = self.start(
            "bootseerd.log", f"{self.build}/snapshotter/node/bootseerd",
            "--root", self.root, "--run", self.run, "--hold",
            "--plain-http", self.registry,
            "--trust", f"{self.registry}=registry", "--cache-quota", QUOTA,
            "--cache-min-free", "0", "--record", "off", *self.options)

    def pid(self):
        """bootseerd itself, below the holder; None when there is none now."""
        if self.holder and self.holder.poll() is None:
            self.daemon = child_of(self.holder.pid)
        return self.daemon if self.daemon and is_alive(self.daemon) else None

    def is_up(self):
        try:
            self.call("node.status", {}, timeout=2)
        except CallFailed:
            return False
        return True

    def wait_up(self):
        wait_for("bootseerd answers", self.is_up)

    def call(self, method, params, timeout=CALL_TIMEOUT):
        body = json.dumps(params)
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(timeout)
                s.connect(self.socket)
                s.sendall(f"POST /v1/{method} HTTP/1.1\r\nHost: bootseer\r\n"
                          f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                          f"{body}".encode())
                reply = s.makefile(newline="").read().partition("\r\n\r\n")[2]
        except TimeoutError as error:
            if timeout < CALL_TIMEOUT:
                raise CallFailed(f"{method}: no answer") from error
            raise Stuck(f"{method} {params}") from error
        except OSError as error:
            raise CallFailed(f"{method}: {error}") from error
        if not reply.endswith("\n"):
            raise CallFailed(f"{method}: no answer")
        reply = json.loads(reply)
        if "error" in reply:
            raise CallFailed(reply["error"]["message"], reply["error"]["errno"])
        return reply["result"]

    def bootseer(self, *words):
        """Run the command line; True when it succeeded."""
        try:
            said = subprocess.run(
                [f"{self.build}/cli/bootseer", *words, "--socket", self.socket],
                capture_output=True, text=True, timeout=CALL_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise Stuck(" ".join(words)) from error
        return said.returncode == 0, said.stderr.strip()

    # --- bootseer-snapshotter ---------------------------------------------------

    def start_plugin(self):
        self.plugin = self.start(
            "plugin.log",
            f"{self.build}/containerd-plugin/bootseer-snapshotter",
            "--root", f"{self.t}/plugin", "--address", f"{self.t}/plugin.sock",
            "--scope", self.registry,
            "--node", self.socket, "--containerd-state", f"{self.t}/ctd",
            "--node-timeout", "5s", "--restore-timeout", "2s")
        if self.channel:
            self.channel.close()
        self.channel = None

    def snapshots(self, method, fields):
        """A call of the Snapshots service -> {field: [values]}."""
        if not self.channel:
            self.channel = grpc.insecure_channel(
                f"unix:{self.t}/plugin.sock",
                options=[("grpc.use_local_subchannel_pool", 1),
                         ("grpc.initial_reconnect_backoff_ms", 100),
                         ("grpc.min_reconnect_backoff_ms", 10000),
                         ("grpc.max_reconnect_backoff_ms", 300)])
        rpc = self.channel.unary_unary(
            f"/containerd.services.snapshots.v1.Snapshots/{method}",
            request_serializer=encode, response_deserializer=decode)
        try:
            # It listens when it has asked bootseerd for its mounts.
            return rpc(fields, timeout=CALL_TIMEOUT, wait_for_ready=True)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise Stuck(f"plugin {method}") from error
            raise CallFailed(
                f"{method}: {error.details()}", error.code().name) from error
