// SPDX-License-Identifier: Apache-2.0

// The daemon of stargz-snapshotter with its default settings, for comparison:
// distributions package its command line only.
package main

import (
	"context"
	"flag"
	"log"
	"net"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/stargz-snapshotter/service"
	"github.com/pelletier/go-toml"
	"google.golang.org/grpc"
)

func main() {
	address := flag.String("address", "", "socket to listen on")
	config := flag.String("config", "", "configuration file of stargz-snapshotter")
	root := flag.String("root", "", "directory for state")
	flag.Parse()

	var c service.Config
	tree, err := toml.LoadFile(*config)
	if err != nil {
		log.Fatal(err)
	}
	if err := tree.Unmarshal(&c); err != nil {
		log.Fatal(err)
	}
	sn, err := service.NewStargzSnapshotterService(context.Background(), *root, &c)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", *address)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(sn))
	log.Fatal(server.Serve(listener))
}
