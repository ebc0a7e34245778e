package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"millrace/api"
	"millrace/api/rpc"
	"millrace/bus"
	"millrace/connectors/builtin"
	"millrace/workers"
)

// serveOptions are what serve's flags say.
type serveOptions struct {
	data, http, grpc, token string
	logger                  *slog.Logger
}

func newServe() *cobra.Command {
	var o serveOptions
	var engine, config, tokenFile string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node: the log, the REST API, and a worker that runs connectors and rules.
It prints one line with its URLs when it is ready. The first SIGTERM or SIGINT
stops it in order, a second one at once.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config != "" {
				if err := applyConfig(cmd, config); err != nil {
					return err
				}
			}
			if engine != "builtin" {
				return usagef("--log: %q is no engine of this version: builtin is the only one", engine)
			}
			var err error
			if o.logger, err = newLogger(cmd); err != nil {
				return err
			}
			if o.token, err = readToken(tokenFile); err != nil {
				return err
			}
			return serve(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.data, "data", "data", "data directory; made when it is missing")
	cmd.Flags().StringVar(&o.http, "http", "127.0.0.1:8080", "address of the REST API; port 0 takes a free one")
	cmd.Flags().StringVar(&o.grpc, "grpc", "127.0.0.1:8081", "address for workers in other processes; port 0 takes a free one")
	cmd.Flags().StringVar(&engine, "log", "builtin", "engine of the log: builtin")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file whose first line clients must send as a bearer token")
	cmd.Flags().StringVar(&config, "config", "", "YAML file with these flags as keys; a flag given here wins")
	logFlags(cmd)
	return cmd
}

// serve runs a node until ctx ends or a part of it fails.
func serve(ctx context.Context, o serveOptions, out io.Writer) (err error) {
	data, err := filepath.Abs(o.data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	web, err := listen(ctx, "http", o.http, o.token)
	if err != nil {
		return err
	}
	defer func() { _ = web.Close() }() // closed already once it was served
	remote, err := listen(ctx, "grpc", o.grpc, o.token)
	if err != nil {
		return err
	}
	defer func() { _ = remote.Close() }()
	b, err := bus.Open(data, bus.Options{Logger: o.logger})
	if err != nil {
		return fmt.Errorf("data directory %s: %w", data, err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	plugins := builtin.Plugins()
	id := workerID()
	hands := workers.New(workers.Options{Client: b, Plugins: plugins, WorkerID: id, DataDir: data, Logger: o.logger})
	server, err := api.New(api.Options{
		Client:  b,
		Plugins: plugins,
		Node:    api.Node{Version: buildVersion(), Cluster: "builtin", ID: id, DataDir: data},
		Token:   o.token,
		Logger:  o.logger,
		Stats:   map[string]func() any{"bus": func() any { return busStats(b, o.logger) }},
		Tasks:   hands.Stats,
	})
	if err != nil {
		return err
	}

	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return server.Serve(ctx, web) })
	all.Go(func() error { return server.Run(ctx) })
	all.Go(func() error { return hands.Run(ctx) })
	all.Go(func() error { return serveRemote(ctx, remote, b, rpc.Options{Token: o.token, Logger: o.logger}) })
	if _, err := fmt.Fprintf(out, "millrace ready http://%s grpc %s data %s\n", web.Addr(), remote.Addr(), data); err != nil {
		o.logger.Warn("the line that says ready was not taken", "error", err)
	}
	o.logger.Info("node is ready", "http", web.Addr(), "grpc", remote.Addr(), "data", data, "version", buildVersion())
	err = all.Wait()
	o.logger.Info("node stopped")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// remoteGrace is how long the calls of remote workers may take to end; most of
// them wait for something new, and are simply made again.
const remoteGrace = time.Second

// serveRemote serves workers in other processes until ctx ends. It closes l.
func serveRemote(ctx context.Context, l net.Listener, b bus.Client, o rpc.Options) error {
	server := grpc.NewServer(rpc.ServerOptions(o)...)
	rpc.NewServer(b, o).Register(server)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve grpc on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	cut := time.AfterFunc(remoteGrace, server.Stop)
	defer cut.Stop()
	server.GracefulStop()
	return <-failed
}

// workerID names this process among the workers.
func workerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// busStats are the numbers that /metrics shows of the bus.
func busStats(b *bus.Bus, logger *slog.Logger) any {
	stats, err := b.Stats()
	if err != nil {
		logger.Warn("numbers of the bus are missing", "error", err)
	}
	return stats
}
