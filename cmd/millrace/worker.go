package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"millrace/api/rpc"
	"millrace/connectors/builtin"
	"millrace/workers"
)

// workerOptions are what worker's flags say.
type workerOptions struct {
	join, data, token string
	logger            *slog.Logger
}

func newWorker() *cobra.Command {
	var o workerOptions
	var tokenFile string
	cmd := &cobra.Command{
		Use:   "worker --join HOST:PORT",
		Short: "Lend a node more hands",
		Long: `Lend a node more hands: this process takes its share of the tasks of the node's
connectors and rules. It holds nothing that cannot be lost; when it ends, the
others take over.`,
		Example: "  millrace worker --join node:8081 --token-file token",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := net.SplitHostPort(o.join); err != nil {
				return usagef("--join: %q is not the HOST:PORT of a node's --grpc", o.join)
			}
			var err error
			if o.logger, err = newLogger(cmd); err != nil {
				return err
			}
			if o.token, err = readToken(tokenFile); err != nil {
				return err
			}
			return work(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.join, "join", "", "address of a node's --grpc")
	cmd.Flags().StringVar(&o.data, "data", "", "directory for what connectors keep here; default one of its own below the system's temporary directory")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file whose first line is the node's token")
	logFlags(cmd)
	return cmd
}

// work runs a worker until ctx ends. It waits for a node that is not there yet,
// and for one that goes away.
func work(ctx context.Context, o workerOptions, out io.Writer) (err error) {
	if o.data != "" {
		if o.data, err = filepath.Abs(o.data); err != nil {
			return err
		}
	}
	o.logger.Info("worker looks for its node", "join", o.join)
	c, err := rpc.Dial(ctx, o.join, rpc.Options{Token: o.token, Logger: o.logger})
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it found one
		}
		return fmt.Errorf("--join %s: %w", o.join, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	id := workerID()
	hands := workers.New(workers.Options{Client: c, Plugins: builtin.Plugins(), WorkerID: id, DataDir: o.data, Logger: o.logger})
	if _, err := fmt.Fprintf(out, "millrace worker %s ready joined %s\n", id, o.join); err != nil {
		o.logger.Warn("the line that says ready was not taken", "error", err)
	}
	return hands.Run(ctx)
}
