// SPDX-License-Identifier: Apache-2.0

// Package suite runs containerd's own tests of snapshotters against
// bootseer-snapshotter, through the client that containerd's proxy plugin is.
package suite

import (
	"context"
	"os"
	"testing"

	"bootseer/tests/containerd/suite/start"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/proxy"
	"github.com/containerd/containerd/v2/core/snapshots/testsuite"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func newSnapshotter(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
	cmd, sock, err := start.Plugin(root)
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient("unix:"+sock,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	// Under this name a test is left out that no overlayfs passes: renaming a
	// folder of a lower layer.
	testsuite.SnapshotterSuite(t, "overlayfs", newSnapshotter)
}
