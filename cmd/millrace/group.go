package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

func newGroup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Describe and reset groups",
		Args:  args(cobra.NoArgs),
		RunE:  showHelp,
	}
	cmd.AddCommand(newGroupDescribe(), newGroupReset())
	return cmd
}

func newGroupDescribe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show the checkpoint, lag and owner of each of a group's queues",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return showOne(cmd, pathOf("groups", given[0]), groupTable)
		},
	}
	outputFlag(cmd)
	clientFlags(cmd)
	return cmd
}

func newGroupReset() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:     "reset NAME --to earliest|latest|OFFSET|TIME",
		Short:   "Move a group's checkpoints; whoever runs it starts again from there",
		Example: "  millrace group reset connect-orders-to-file --to earliest\n  millrace group reset rule-big-orders --to 2026-01-31T09:30:00Z",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if to == "" {
				return usagef("--to: say where: earliest, latest, an offset or an RFC 3339 time")
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			if err := c.call(cmd.Context(), http.MethodPost, pathOf("groups", given[0], "reset"), map[string]any{"to": to}, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "group %s starts again from %s\n", given[0], to)
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "earliest, latest, an offset or an RFC 3339 time")
	clientFlags(cmd)
	return cmd
}
