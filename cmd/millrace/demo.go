package main

import (
	"github.com/spf13/cobra"

	"millrace/cmd/millrace/demo"
)

func newDemo() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the main job on real input and check what comes out",
		Long: `Run the main job on real input and check what comes out: the documents of docs/
and examples/ into a searchable store, orders through a rule to a file and an
HTTP target, a MariaDB table with its changes. It works in a temporary directory
with a node of its own, and fails if any check does.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			form, err := form(cmd)
			if err != nil {
				return err
			}
			o.Out, o.JSON = cmd.OutOrStdout(), form == "json"
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Root, "root", ".", "the project's directory, with examples/ and docs/")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the node running at the end, until Ctrl-C")
	outputFlag(cmd)
	return cmd
}
