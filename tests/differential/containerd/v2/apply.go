// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/containerd/containerd/v2/core/content"
	applier "github.com/containerd/containerd/v2/core/diff/apply"
	"github.com/containerd/containerd/v2/core/mount"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func (b blob) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) {
	return b.open()
}

func apply(ctx context.Context, b blob, d ocispec.Descriptor, dir string, n int) error {
	kind, source, options := mountOf(dir, n)
	_, err := applier.NewFileSystemApplier(b).Apply(ctx, d,
		[]mount.Mount{{Type: kind, Source: source, Options: options}})
	return err
}
