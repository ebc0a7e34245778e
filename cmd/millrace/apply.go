package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// applied is what became of one resource.
type applied struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Action string `json:"action"` // created, changed, unchanged, deleted
}

func newApply() *cobra.Command {
	var (
		path   string
		dryRun bool
		prune  bool
	)
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR",
		Short: "Make a node hold what YAML documents say",
		Long: `Make a node hold what YAML documents say. A document has kind (Topic, Connector,
Rule, Connection, Pipeline), name and spec; a file may hold many, parted by "---". All are
checked before any is changed; applying the same again changes nothing.`,
		Example: "  millrace apply -f pipeline.yaml\n  millrace apply -f deploy/ --prune --dry-run",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usagef("-f: name a file, a directory, or - for stdin")
			}
			form, err := form(cmd)
			if err != nil {
				return err
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			resources, err := readResources(path, cmd.InOrStdin())
			if err != nil {
				return err
			}
			query := url.Values{}
			if dryRun {
				query.Set("dry-run", "true")
			}
			if prune {
				query.Set("prune", "true")
			}
			var raw []byte
			raw, err = c.raw(cmd.Context(), http.MethodPost, "/apply?"+query.Encode(), map[string]any{"resources": resources})
			if err != nil {
				return locate(err, resources)
			}
			return show(cmd.OutOrStdout(), form, raw, appliedTable)
		},
	}
	cmd.Flags().StringVarP(&path, "file", "f", "", "file or directory of YAML documents; - for stdin")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, change nothing")
	cmd.Flags().BoolVar(&prune, "prune", false, "delete what an earlier apply made and these documents lack")
	outputFlag(cmd)
	clientFlags(cmd)
	return cmd
}

// locate puts the file and line of the resource before an error whose field
// begins "resources[i]".
func locate(err error, resources []resource) error {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	var i int
	if _, scanErr := fmt.Sscanf(e.Field, "resources[%d]", &i); scanErr != nil || i < 0 || i >= len(resources) {
		return err
	}
	within := *e
	within.Field = strings.TrimPrefix(e.Field, fmt.Sprintf("resources[%d].", i))
	within.Message = strings.TrimPrefix(e.Message, fmt.Sprintf("resources[%d].", i))
	return fmt.Errorf("%s: %s %s: %w", resources[i].where, resources[i].Kind, resources[i].Name, &within)
}
