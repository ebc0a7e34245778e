// Command s3test serves S3 from a directory, for tests: versitygw with its posix
// backend. It is a module of its own, so that what versitygw needs stays out of
// Millrace's go.mod.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	dir := flag.String("dir", "", "the directory that is served; buckets are its directories")
	addr := flag.String("addr", "127.0.0.1:9000", "where to listen: host and port")
	access := flag.String("access", "access", "the access key")
	secret := flag.String("secret", "secret", "the secret key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *dir, *addr, *access, *secret); err != nil && !errors.Is(err, context.Canceled) {
		slog.Error("s3test ended", "error", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, dir, addr, access, secret string) error {
	opts := posix.PosixOpts{
		NewDirPerm: 0o755, Concurrency: 64,
		CopyObjectThreshold: 5 << 30, // 0 would refuse every copy
	}
	root := filepath.Join(dir, "buckets")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	var attributes meta.MetadataStorer = meta.XattrMeta{}
	if err := (meta.XattrMeta{}).Test(root); err != nil { // a file system without extended attributes
		beside := filepath.Join(dir, "attributes")
		if err := os.MkdirAll(beside, 0o755); err != nil {
			return err
		}
		sidecar, err := meta.NewSideCar(beside)
		if err != nil {
			return err
		}
		attributes, opts.SideCarDir = sidecar, beside
	}
	backend, err := posix.New(root, attributes, opts)
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: access, RootUserSecret: secret, Ports: []string{addr}, HealthPath: "/healthz",
		MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 10000, Quiet: true, KeepAlive: true,
	})
}
