// SPDX-License-Identifier: Apache-2.0

// SOCI for comparison, with its default settings.  Its own commands are a Go module that no
// proxy has; these are made of the packages that they call:
//
//	soci index OUT LAYER...          what `soci create` computes of each layer, all of them
//	                                 beside each other; prints the bytes of the indexes
//	soci convert SRC DST             `soci convert` of an image of the containerd at
//	                                 $CONTAINERD_ADDRESS
//	soci daemon ADDRESS CONFIG ROOT  soci-snapshotter-grpc
//	soci pull REF                    `soci image rpull --plain-http`
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/awslabs/soci-snapshotter/config"
	"github.com/awslabs/soci-snapshotter/fs"
	"github.com/awslabs/soci-snapshotter/fs/source"
	"github.com/awslabs/soci-snapshotter/metadata"
	"github.com/awslabs/soci-snapshotter/service"
	"github.com/awslabs/soci-snapshotter/soci"
	"github.com/awslabs/soci-snapshotter/soci/store"
	"github.com/awslabs/soci-snapshotter/ztoc"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/snapshotters"
	bolt "go.etcd.io/bbolt"
	"google.golang.org/grpc"
)

const (
	spanSize     = 4 << 20  // both are its defaults
	minLayerSize = 10 << 20 // smaller ones are not lazy
)

func indexLayer(out, layer string) (int64, error) {
	st, err := os.Stat(layer)
	if err != nil || st.Size() < minLayerSize {
		return 0, err
	}
	z, err := ztoc.NewBuilder("bench").BuildZtoc(layer, spanSize)
	if err != nil {
		return 0, err
	}
	r, _, err := ztoc.Marshal(z)
	if err != nil {
		return 0, err
	}
	f, err := os.Create(filepath.Join(out, filepath.Base(layer)))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(f, r)
}

func index(out string, layers []string) error {
	sizes := make([]int64, len(layers))
	errs := make([]error, len(layers))
	var all sync.WaitGroup
	for i, layer := range layers {
		all.Add(1)
		go func() {
			defer all.Done()
			sizes[i], errs[i] = indexLayer(out, layer)
		}()
	}
	all.Wait()
	var sum int64
	for _, n := range sizes {
		sum += n
	}
	fmt.Println(sum)
	return errors.Join(errs...)
}

func client() (*containerd.Client, context.Context, error) {
	c, err := containerd.New(os.Getenv("CONTAINERD_ADDRESS"))
	return c, namespaces.WithNamespace(context.Background(), "default"), err
}

func convert(src, dst string) error {
	c, ctx, err := client()
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "soci")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	db, err := soci.NewDB(soci.ArtifactsDbPath(root))
	if err != nil {
		return err
	}
	blobs, err := store.NewContentStore(
		store.WithType(store.ContainerdContentStoreType),
		store.WithClient(store.NewContainerdClient(os.Getenv("CONTAINERD_ADDRESS"))))
	if err != nil {
		return err
	}
	ctx, done, err := blobs.BatchOpen(ctx)
	if err != nil {
		return err
	}
	defer done(ctx)
	img, err := c.ImageService().Get(ctx, src)
	if err != nil {
		return err
	}
	b, err := soci.NewIndexBuilder(c.ContentStore(), blobs, soci.WithArtifactsDb(db))
	if err != nil {
		return err
	}
	desc, err := b.Convert(ctx, img)
	if err != nil {
		return err
	}
	_, err = c.ImageService().Create(ctx, images.Image{Name: dst, Target: *desc})
	return err
}

func pull(ref string) error {
	c, ctx, err := client()
	if err != nil {
		return err
	}
	resolver := docker.NewResolver(docker.ResolverOptions{
		Hosts: docker.ConfigureDefaultRegistries(docker.WithPlainHTTP(docker.MatchAllHosts)),
	})
	_, err = c.Pull(ctx, ref, containerd.WithPullUnpack, containerd.WithResolver(resolver),
		containerd.WithPullSnapshotter("soci"),
		containerd.WithImageHandlerWrapper(source.AppendDefaultLabelsHandlerWrapper("",
			snapshotters.AppendInfoHandlerWrapper(ref))))
	return err
}

func daemon(address, file, root string) error {
	cfg, err := config.NewConfigFromToml(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o711); err != nil {
		return err
	}
	db, err := bolt.Open(filepath.Join(root, "metadata.db"), 0o600, &bolt.Options{
		NoFreelistSync: true, InitialMmapSize: 64 << 20, FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		return err
	}
	sn, err := service.NewSociSnapshotterService(context.Background(), root, &cfg.ServiceConfig,
		service.WithFilesystemOptions(fs.WithMetadataStore(
			func(sr *io.SectionReader, toc ztoc.TOC, o ...metadata.Option) (metadata.Reader, error) {
				return metadata.NewReader(db, sr, toc, o...)
			})))
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", address)
	if err != nil {
		return err
	}
	// Debian's containerd names no namespace to a snapshotter of its own process.
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any,
		_ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if _, ok := namespaces.Namespace(ctx); !ok {
			ctx = namespaces.WithNamespace(ctx, "default")
		}
		return handle(ctx, req)
	}))
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(sn))
	return server.Serve(listener)
}

func run(args []string) error {
	switch {
	case len(args) > 2 && args[0] == "index":
		return index(args[1], args[2:])
	case len(args) == 3 && args[0] == "convert":
		return convert(args[1], args[2])
	case len(args) == 4 && args[0] == "daemon":
		return daemon(args[1], args[2], args[3])
	case len(args) == 2 && args[0] == "pull":
		return pull(args[1])
	}
	return errors.New("usage: soci index|convert|daemon|pull ARGUMENT...")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
