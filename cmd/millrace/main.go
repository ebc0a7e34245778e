package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit statuses of every verb.
const (
	exitFine   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := stopOnSignal(ctx)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	fmt.Fprintf(errs, "millrace: %v\n", err)
	if _, usage := errors.AsType[*usageError](err); usage {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace",
		Short:         "An event bus and connector runtime for ETL and RAG pipelines",
		Args:          args(cobra.NoArgs),
		RunE:          showHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
	})
	root.AddCommand(

		newServe(), newWorker(),
		newApply(), newGet(), newDelete(),
		newTopic(), newGroup(), newRule(), newConnector(),
		newProduce(), newConsume(), newDemo(),
		newVersion(),
	)
	return root
}

// usageError is a mistake in how a command was called: exit status 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef makes a usageError.
func usagef(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

// args makes a wrong number or choice of arguments a usageError.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return usagef("%w (see %s --help)", err, cmd.CommandPath())
		}
		return nil
	}
}

// showHelp is what a command that only groups others does by itself.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// sameSignal is how close together two signals are one: a process group and its
// supervisor may both pass on the same Ctrl-C.
const sameSignal = 500 * time.Millisecond

// stopOnSignal returns a context that ends with the first SIGINT or SIGTERM; a
// second one exits the process at once.
func stopOnSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		for first := time.Now(); ; {
			<-signals
			if time.Since(first) > sameSignal {
				os.Exit(exitFailed)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}
