// SPDX-License-Identifier: Apache-2.0

//go:build debian

// Package debian runs containerd 1.6's own tests of snapshotters, as Debian
// packages their source, against bootseer-snapshotter: without modules, so
// without a network.
package debian

import (
	"context"
	"os"
	"testing"

	"bootseer/tests/containerd/suite/start"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	_ "github.com/containerd/containerd/pkg/testutil" // its flag -test.root
	"github.com/containerd/containerd/snapshots"
	"github.com/containerd/containerd/snapshots/proxy"
	"github.com/containerd/containerd/snapshots/testsuite"
	"google.golang.org/grpc"
)

func newSnapshotter(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
	cmd, sock, err := start.Plugin(root)
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.Dial("unix:"+sock, grpc.WithInsecure())
	if err != nil {
		return nil, nil, err
	}
	sn := proxy.NewSnapshotter(snapshotsapi.NewSnapshotsClient(conn), "bootseer")
	stop := func() error {
		_ = conn.Close()
		return start.Stop(cmd)
	}
	return sn, stop, nil
}

func TestSnapshotter(t *testing.T) {
	if os.Getenv("BOOTSEER_SNAPSHOTTER") == "" {
		t.Fatal("BOOTSEER_SNAPSHOTTER must name the program")
	}
	testsuite.SnapshotterSuite(t, "overlayfs", newSnapshotter)
}
