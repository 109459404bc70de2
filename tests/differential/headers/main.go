// SPDX-License-Identifier: Apache-2.0

// What Go's archive/tar, by which containerd unpacks, finds in each tar: a line with
// its name and, for each entry, type, name, target, attributes, and what its content
// hashes to; or "refused".
package main

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

// Kinds that containerd unpacks, as the first letter of their names.
var kinds = map[byte]string{
	tar.TypeReg: "f", tar.TypeDir: "d", tar.TypeLink: "h", tar.TypeSymlink: "l",
	tar.TypeChar: "c", tar.TypeBlock: "b", tar.TypeFifo: "p",
}

// Those that Linux keeps on what is of that kind, by name.
func xattrs(h *tar.Header, kind string) string {
	const prefix = "SCHILY.xattr."
	var names []string
	for key := range h.PAXRecords {
		name := strings.TrimPrefix(key, prefix)
		of_files := strings.HasPrefix(name, "user.")
		if name != key && (of_files || strings.HasPrefix(name, "security.")) &&
			!(of_files && strings.Contains("lcbp", kind)) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "%s=%x,", name, h.PAXRecords[prefix+name])
	}
	return all.String()
}

func attributes(h *tar.Header, kind string) string {
	major, minor := int64(0), int64(0)
	if kind == "c" || kind == "b" {
		major, minor = h.Devmajor, h.Devminor
	}
	return fmt.Sprintf("%o,%d,%d,%d.%09d,%d,%d|%s|", h.Mode&07777, h.Uid, h.Gid,
		h.ModTime.Unix(), h.ModTime.Nanosecond(), major, minor, xattrs(h, kind))
}

func entry(h *tar.Header, r io.Reader) (string, error) {
	kind, known := kinds[h.Typeflag]
	if !known {
		return "", fmt.Errorf("type %q", h.Typeflag)
	}
	hash := sha256.New()
	size, err := io.Copy(hash, r)
	if err != nil {
		return "", err
	}
	target := ""
	if kind == "h" || kind == "l" {
		target = h.Linkname
	}
	name := strings.TrimRight(h.Name, "/")
	return fmt.Sprintf(" %s|%q|%q|%s%d:%x", kind, name, target,
		attributes(h, kind), size, hash.Sum(nil)[:8]), nil
}

func list(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r := tar.NewReader(f)
	var all strings.Builder
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all.String(), nil
		}
		if err != nil {
			return "", err
		}
		// To containerd it is an entry, which removes what has its name.
		if h.Typeflag == tar.TypeXGlobalHeader {
			if h.Name != "pax_global_header" {
				all.WriteString(" g|" + h.Name)
			}
			continue
		}
		text, err := entry(h, r)
		if err != nil {
			return "", err
		}
		all.WriteString(text)
	}
}

func main() {
	for _, path := range os.Args[1:] {
		text, err := list(path)
		if err != nil {
			text = " refused"
		}
		fmt.Printf("%s%s\n", path, text)
	}
}
