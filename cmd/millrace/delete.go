package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

func newDelete() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "delete KIND NAME",
		Short:   "Delete a topic, connector, rule, connection or pipeline",
		Example: "  millrace delete rule big-orders\n  millrace delete topic orders --force",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, given []string) error {
			kind := strings.TrimSuffix(strings.ToLower(given[0]), "s")
			switch kind {
			case "topic", "connector", "rule", "connection", "pipeline":
			default:
				return usagef("%s is not topic, connector, rule, connection or pipeline", given[0])
			}
			if force && kind != "topic" {
				return usagef("--force is for topics only")
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			path := pathOf(kind+"s", given[1])
			if force {
				path += "?force=true"
			}
			if err := c.call(cmd.Context(), http.MethodDelete, path, nil, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s deleted\n", kind, given[1])
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "delete a topic even while rules, connectors or links use it")
	clientFlags(cmd)
	return cmd
}
