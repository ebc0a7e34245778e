package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

func newConnector() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connector",
		Short: "Steer connectors",
		Args:  args(cobra.NoArgs),
		RunE:  showHelp,
	}
	status := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the state of a connector and its tasks",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return showOne(cmd, pathOf("connectors", given[0], "status"), statusTable)
		},
	}
	outputFlag(status)
	clientFlags(status)
	cmd.AddCommand(
		status,
		newVerb("connector", http.MethodPost, "restart", "Start a connector and its tasks again", "?includeTasks=true"),
		newVerb("connector", http.MethodPut, "pause", "Hold a connector: its tasks stay, nothing moves", ""),
		newVerb("connector", http.MethodPut, "resume", "Let a paused or stopped connector run", ""),
		newVerb("connector", http.MethodPut, "stop", "Stop a connector: its tasks are gone, its checkpoints stay", ""),
	)
	return cmd
}

// newVerb makes the command that asks for one verb of a connector or rule.
func newVerb(kind, method, verb, short, query string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			if err := c.call(cmd.Context(), method, pathOf(kind+"s", given[0], verb)+query, nil, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s asked for\n", kind, given[0], verb)
			return err
		},
	}
	clientFlags(cmd)
	return cmd
}
