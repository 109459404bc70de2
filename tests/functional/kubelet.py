# SPDX-License-Identifier: Apache-2.0
"""The kubelet, as bootseer-csi meets it: kubelet.py KUBELET-DIR COMMAND...

    register                   look for the plugin as the kubelet does, print what it says
    publish POD VOLUME [KEY=VALUE...]
                               make the pod's folder, and publish the volume in it
    unpublish POD VOLUME       the reverse; the folder stays
    stats POD VOLUME           as JSON
    many publish|unpublish COUNT VOLUME [KEY=VALUE...]
                               of the pods a/1 to a/COUNT: publish one after the other,
                               unpublish all at once; print the status of each refusal
    hostile COUNT SEED         publish that many requests made of rubbish, and print
                               how many were refused; none may succeed
    cycle COUNT SEED KEY=VALUE...
                               publish and unpublish in any order, again and again, with
                               the plugin's process killed at times (PLUGIN_PID_FILE)

POD is NAMESPACE/NAME; its UID is $POD_UIDS-NAME. Keys are volumeAttributes, but for those that
begin with '@': @readonly=true, @access=5, @flag=ro, @group=7, @secret.NAME=VALUE,
@fstype=ext4, @block=1, @persistent=1, @bare=1 (no pod's info), @target=PATH, @id=ID, @raw=KEY=VALUE.

A failure is printed as STATUS: MESSAGE, and the exit status is 1.
"""

import json
import os
import random
import signal
import sys
import threading

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../containerd"))
from protobuf import decode, encode  # noqa: E402

DRIVER = "csi.bootseer"
UIDS = os.environ.get("POD_UIDS", "uid")
TIMEOUT = 120


def call(socket, method, fields, wait=False):
    with grpc.insecure_channel("unix:" + socket) as channel:
        rpc = channel.unary_unary(method, request_serializer=encode,
                                  response_deserializer=decode)
        return rpc(fields, timeout=TIMEOUT, wait_for_ready=wait)


class Kubelet:
    def __init__(self, folder):
        self.folder = folder
        self.socket = f"{folder}/plugins/{DRIVER}/csi.sock"

    def node(self, method, fields, wait=False):
        return call(self.socket, "/csi.v1.Node/" + method, fields, wait)

    def place(self, pod, volume):
        name = pod.split("/")[1]
        return (f"{self.folder}/pods/{UIDS}-{name}/volumes/"
                f"kubernetes.io~csi/{volume}/mount")

    def register(self):
        socket = f"{self.folder}/plugins_registry/{DRIVER}-reg.sock"
        service = "/pluginregistration.Registration/"
        info = call(socket, service + "GetInfo", [])
        node = call(info[3][0].decode(), "/csi.v1.Node/NodeGetInfo", [])
        call(socket, service + "NotifyRegistrationStatus", [(1, 1)])
        print(info[1][0].decode(), info[2][0].decode(), info[4][0].decode(),
              node[1][0].decode())

    def request(self, pod, volume, words):
        namespace, name = pod.split("/")
        attributes, secrets, mount, block = [], [], [], False
        fields, access, persistent = [], 1, False
        target, volume_id, bare = self.place(pod, volume), "csi-" + volume, False
        for word in words:
            key, value = word.split("=", 1)
            if key == "@readonly":
                fields.append((6, 1))
            elif key == "@access":
                access = int(value)
            elif key == "@flag":
                mount.append((2, value))
            elif key == "@group":
                mount.append((3, value))
            elif key == "@fstype":
                mount.append((1, value))
            elif key == "@block":
                block = True
            elif key == "@persistent":
                persistent = True
            elif key == "@bare":
                bare = True
            elif key == "@target":
                target = value
            elif key == "@id":
                volume_id = value
            elif key.startswith("@secret."):
                secrets.append((key[8:], value))
            elif key == "@raw":
                attributes.append(tuple(value.split("=", 1)))
            else:
                attributes.append((key, value))
        if not bare:
            attributes += [
                ("csi.storage.k8s.io/ephemeral", "false" if persistent else "true"),
                ("csi.storage.k8s.io/pod.name", name),
                ("csi.storage.k8s.io/pod.namespace", namespace),
                ("csi.storage.k8s.io/pod.uid", f"{UIDS}-{name}"),
                ("csi.storage.k8s.io/serviceAccount.name", "default"),
            ]
        fields += [(1, volume_id), (4, target),
                   (5, [(1, []) if block else (2, mount), (3, [(1, access)])])]
        fields += [(7, [(1, k), (2, v)]) for k, v in secrets]
        return fields + [(8, [(1, k), (2, v)]) for k, v in attributes]

    def publish(self, pod, volume, words, wait=False):
        os.makedirs(os.path.dirname(self.place(pod, volume)), exist_ok=True)
        self.node("NodePublishVolume", self.request(pod, volume, words), wait)

    def unpublish(self, pod, volume, words=(), wait=False):
        target = self.place(pod, volume)
        for word in words:
            target = word.removeprefix("@target=")
        self.node("NodeUnpublishVolume", [(1, "csi-" + volume), (2, target)], wait)

    def stats(self, pod, volume):
        reply = self.node("NodeGetVolumeStats",
                          [(1, "csi-" + volume), (2, self.place(pod, volume))])
        condition = decode(reply[2][0])
        usage = [decode(u) for u in reply.get(1, [])]
        print(json.dumps({
            "abnormal": bool(condition.get(1, [0])[0]),
            "message": condition.get(2, [b""])[0].decode(),
            "bytes": usage[0].get(2, [0])[0], "files": usage[1].get(2, [0])[0]}))

    def many(self, verb, count, volume, words):
        def unpublish(i):
            try:
                self.unpublish(f"a/{i}", volume)
            except grpc.RpcError as e:
                print(e.code().name, flush=True)

        threads = [threading.Thread(target=unpublish, args=(i,))
                   for i in range(1, count + 1)]
        if verb == "publish":
            for i in range(1, count + 1):
                self.publish(f"a/{i}", volume, words)
            return
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def hostile(self, count, seed):
        """Nothing that is made of pieces like these may be given."""
        rng = random.Random(seed)
        keys = ["kind", "image", "store", "memory", "uid", "gid", "most", "workload",
                "", "Kind", "kind ", "../x", "@raw", "x" * 300, "kind\n"]
        values = ["", "image", "env", "ckpt", "-1", "4294967295", "99999999999999999999",
                  "../../etc", "/etc", "file:/etc", "file:///", "s3://x/../y",
                  "evil.example/x:1", "\x1b[2J", "a b", "%2e%2e/x", "1Gi\n", "\u202e",
                  "x" * 70000, "registry.example/../x:1", "docker://x", "-x", "--run=/"]
        refused = 0
        for i in range(count):
            words = [f"@raw={rng.choice(keys)}={rng.choice(values)}"
                     for _ in range(rng.randrange(8))]
            if rng.random() < 0.3:
                words.append("@target=" + rng.choice([
                    "/etc", self.folder, self.folder + "/pods/../x", "relative",
                    self.place("a/p", "../../x"), self.place("a/..", "v"),
                    self.place("a/p", "v") + "/", self.folder + "/pods//volumes"]))
            if rng.random() < 0.2:
                words.append("@access=%d" % rng.randrange(-1 if i < 0 else 0, 99))
            if rng.random() < 0.2:
                words.append("@flag=" + rng.choice(["suid", "dev", "context=x", "bind,rw"]))
            try:
                self.publish("a/p", "v", words)
                print("given:", words)
            except grpc.RpcError as e:
                if e.code().name not in ("INVALID_ARGUMENT", "PERMISSION_DENIED",
                                         "RESOURCE_EXHAUSTED"):
                    print(e.code().name, e.details(), words)
                    continue
                refused += 1
        print(refused)

    def cycle(self, count, seed, words):
        """As a kubelet that lost its memory: any call, any number of times."""
        rng = random.Random(seed)
        for i in range(count):
            name = f"p{rng.randrange(4)}"
            pod, volume = "a/" + name, f"v{rng.randrange(2)}"
            if rng.random() < 0.15:
                with open(os.environ["PLUGIN_PID_FILE"], encoding="ascii") as f:
                    try:
                        os.kill(int(f.read()), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            try:
                if rng.random() < 0.5:
                    self.publish(pod, volume, words, wait=True)
                else:
                    self.unpublish(pod, volume, wait=True)
            except grpc.RpcError as e:
                if e.code().name not in ("UNAVAILABLE", "ABORTED", "CANCELLED"):
                    raise
        for p in range(4):
            for v in range(2):
                for _ in range(50):
                    try:
                        self.unpublish(f"a/p{p}", f"v{v}", wait=True)
                        break
                    except grpc.RpcError as e:
                        if e.code().name not in ("UNAVAILABLE", "ABORTED"):
                            raise
        print("done")


def main():
    kubelet, command, args = Kubelet(sys.argv[1]), sys.argv[2], sys.argv[3:]
    try:
        if command == "many":
            kubelet.many(args[0], int(args[1]), args[2], args[3:])
        elif command == "register":
            kubelet.register()
        elif command == "publish":
            kubelet.publish(args[0], args[1], args[2:])
        elif command == "unpublish":
            kubelet.unpublish(args[0], args[1], args[2:])
        elif command == "stats":
            kubelet.stats(args[0], args[1])
        elif command == "hostile":
            kubelet.hostile(int(args[0]), int(args[1]))
        else:
            kubelet.cycle(int(args[0]), int(args[1]), args[2:])
    except grpc.RpcError as e:
        print(f"{e.code().name}: {e.details()}")
        sys.exit(1)


main()
