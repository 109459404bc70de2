// SPDX-License-Identifier: Apache-2.0

// Apply layers as containerd does when it pulls to its overlayfs snapshotter. A line
// of stdin is {"dir": DIR, "layers": [DESCRIPTOR with "path", ...]}: layer N goes to
// DIR/N/fs, mounted for it as the snapshotter mounts it. A line of stdout answers it:
// {} or {"error": TEXT, "layer": N}.
package main

import (
	"bufio"
	"context"
	_ "crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
)

type layer struct {
	ocispec.Descriptor
	Path string `json:"path"`
}

type request struct {
	Dir    string  `json:"dir"`
	Layers []layer `json:"layers"`
}

type reply struct {
	Error string `json:"error,omitempty"`
	Layer int    `json:"layer"`
}

type file struct {
	*os.File
	size int64
}

func (f file) Size() int64 { return f.size }

// A content store of one blob.
type blob string

func (b blob) open() (file, error) {
	f, err := os.Open(string(b))
	if err != nil {
		return file{}, err
	}
	st, err := f.Stat()
	if err != nil {
		return file{}, err
	}
	return file{f, st.Size()}, nil
}

// What the overlayfs snapshotter gives for a snapshot that is being written.
func mountOf(dir string, n int) (string, string, []string) {
	fs := func(i int) string { return filepath.Join(dir, fmt.Sprint(i), "fs") }
	if n == 0 {
		return "bind", fs(0), []string{"rw", "rbind"}
	}
	lower := []string{}
	for i := n - 1; i >= 0; i-- {
		lower = append(lower, fs(i))
	}
	return "overlay", "overlay", []string{
		"index=off",
		"workdir=" + filepath.Join(dir, fmt.Sprint(n), "work"),
		"upperdir=" + fs(n),
		"lowerdir=" + strings.Join(lower, ":"),
	}
}

func run(r request) reply {
	for n, l := range r.Layers {
		for _, name := range []string{"fs", "work"} {
			if err := os.MkdirAll(filepath.Join(r.Dir, fmt.Sprint(n), name),
				0o755); err != nil {
				return reply{Error: "test: " + err.Error(), Layer: n}
			}
		}
		if err := apply(context.Background(), blob(l.Path), l.Descriptor, r.Dir,
			n); err != nil {
			return reply{Error: err.Error(), Layer: n}
		}
	}
	return reply{Layer: -1}
}

func main() {
	logrus.SetLevel(logrus.ErrorLevel)
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := out.Encode(run(r)); err != nil {
			os.Exit(1)
		}
	}
}
