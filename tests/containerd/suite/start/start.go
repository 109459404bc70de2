// SPDX-License-Identifier: Apache-2.0

// Package start starts bootseer-snapshotter for a test.
package start

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
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

// Plugin starts the program that BOOTSEER_SNAPSHOTTER names with its state in
// root, and returns its socket once it listens.
func Plugin(root string) (*exec.Cmd, string, error) {
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

// Stop ends the program and waits for it.
func Stop(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return cmd.Wait()
}
