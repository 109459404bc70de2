# SPDX-License-Identifier: Apache-2.0
"""A client of the CRI, as the kubelet is one: cri.py SOCKET COMMAND ARGUMENT...

    pull IMAGE                 pull an image, print its id
    pull-as NAMESPACE IMAGE    the same for a pod of this namespace, with the login
                               of $CRI_USER and $CRI_PASSWORD, or in base 64 of
                               $CRI_AUTH, or with $CRI_TOKEN
    images                     print the names of all images, and of the image
                               service's calls what else it says
    run IMAGE POD COMMAND...   start a pod (host network) and a container in it
                               that sleeps, run COMMAND in it and print its output;
                               its job is $CRI_JOB, its CDI device $CRI_DEVICE,
                               its runtime handler $CRI_HANDLER, which pull has too,
                               its uid $CRI_UID, or made of its name
    exec COMMAND...            run COMMAND in the container that runs, print its output
    run-userns ...             the same in a user namespace of the pod (hostUsers:
                               false), and a network of its own
    stop                       end and remove all pods

Field numbers of the CRI, runtime.v1.
"""

import os
import sys

import grpc

from protobuf import decode, encode

TIMEOUT = 120  # seconds, as containerd's client sends it
HANDLER = os.environ.get("CRI_HANDLER", "")


class Client:
    def __init__(self, socket):
        self.channel = grpc.insecure_channel("unix:" + socket)

    def call(self, service, method, fields):
        rpc = self.channel.unary_unary(
            f"/runtime.v1.{service}/{method}",
            request_serializer=encode,
            response_deserializer=decode,
        )
        return rpc(fields, timeout=TIMEOUT)

    def pull(self, image, sandbox=()):
        request = [(1, [(1, image)])]
        if HANDLER:
            annotation = [(1, "io.containerd.cri.runtime-handler"), (2, HANDLER)]
            sandbox = [*sandbox, (7, annotation)]
        if sandbox:
            request.append((3, sandbox))
        return self.call("ImageService", "PullImage", request)[1][-1].decode()

    def pull_as(self, namespace, image):
        fields = [(1, "CRI_USER"), (2, "CRI_PASSWORD"), (3, "CRI_AUTH"), (5, "CRI_TOKEN")]
        auth = [(n, os.environ[v]) for n, v in fields if v in os.environ]
        request = [(1, [(1, image)]), (2, auth)]
        request.append((3, [(1, [(1, "pod"), (2, "uid"), (3, namespace)])]))
        return self.call("ImageService", "PullImage", request)[1][-1].decode()

    def images(self):
        service = "ImageService"
        for image in self.call(service, "ListImages", []).get(1, []):
            fields = decode(image)
            print(fields[1][-1].decode(), *[tag.decode() for tag in fields.get(2, [])])
        status = self.call(service, "ImageStatus", [(1, [(1, "no/such:image")])])
        print("status", sorted(status))
        info = self.call(service, "ImageFsInfo", [])
        print("fs", sorted(info))

    def run(self, image, pod, command, userns=False):
        host = [(1, 2)]  # the node's network
        if userns:
            ids = [(1, 100000), (2, 0), (3, 65536)]
            host = [(1, 0), (5, [(1, 0), (2, ids), (3, ids)])]
        uid = os.environ.get("CRI_UID", "uid-" + pod)
        labels = {
            "io.kubernetes.pod.namespace": "default",
            "io.kubernetes.pod.name": pod,
            "io.kubernetes.pod.uid": uid,
        }
        sandbox = [
            (1, [(1, pod), (2, uid), (3, "default")]),
            *((6, [(1, key), (2, value)]) for key, value in labels.items()),
            (8, [(2, [(1, host)])]),
        ]
        runtime = "RuntimeService"
        reply = self.call(runtime, "RunPodSandbox", [(1, sandbox), (2, HANDLER)])
        pod_id = reply[1][-1].decode()
        config = [
            (1, [(1, "main")]),
            (2, [(1, image)]),
            (3, "/bin/sleep"),
            (4, "1000"),
            *((9, [(1, key), (2, value)]) for key, value in labels.items()),
            (9, [(1, "io.kubernetes.container.name"), (2, "main")]),
            (15, [(2, [(3, host)])]),
        ]
        if "CRI_JOB" in os.environ:
            config.append((6, [(1, "BOOTSEER_JOB"), (2, os.environ["CRI_JOB"])]))
        if "CRI_DEVICE" in os.environ:
            config.append((17, [(1, os.environ["CRI_DEVICE"])]))
        reply = self.call(
            runtime, "CreateContainer", [(1, pod_id), (2, config), (3, sandbox)]
        )
        container = reply[1][-1].decode()
        self.call(runtime, "StartContainer", [(1, container)])
        return self.execute(container, command)

    def execute(self, container, command):
        request = [(1, container)] + [(2, word) for word in command] + [(3, 60)]
        reply = self.call("RuntimeService", "ExecSync", request)
        sys.stdout.write(reply.get(1, [b""])[-1].decode())
        sys.stderr.write(reply.get(2, [b""])[-1].decode())
        return reply.get(3, [0])[-1]

    def execute_in_only(self, command):
        containers = self.call("RuntimeService", "ListContainers", [])[1]
        return self.execute(decode(containers[-1])[1][-1].decode(), command)

    def stop(self):
        pods = self.call("RuntimeService", "ListPodSandbox", [])
        for item in pods.get(1, []):
            pod_id = decode(item)[1][-1].decode()
            self.call("RuntimeService", "StopPodSandbox", [(1, pod_id)])
            self.call("RuntimeService", "RemovePodSandbox", [(1, pod_id)])


def main():
    client, command, args = Client(sys.argv[1]), sys.argv[2], sys.argv[3:]
    try:
        if command == "pull":
            print(client.pull(args[0]))
        elif command == "pull-as":
            print(client.pull_as(args[0], args[1]))
        elif command == "images":
            client.images()
        elif command == "run":
            sys.exit(client.run(args[0], args[1], args[2:]))
        elif command == "run-userns":
            sys.exit(client.run(args[0], args[1], args[2:], userns=True))
        elif command == "exec":
            sys.exit(client.execute_in_only(args))
        elif command == "stop":
            client.stop()
        else:
            sys.exit(__doc__)
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")


main()
