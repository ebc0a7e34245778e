package main

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// gettable is one kind of thing that get shows: where its list and one of it are
// read, and how they look as tables.
type gettable struct {
	kind     string
	list     string // path of the list
	listForm func(json.RawMessage) (table, error)
	one      func(name string) string
	oneForm  func(json.RawMessage) (table, error)
}

func gettables() []gettable {
	below := func(kind string) func(string) string {
		return func(name string) string { return pathOf(kind, name) }
	}
	return []gettable{
		{"topics", "/topics", topicsTable, below("topics"), topicTable},
		{"connectors", "/connectors?expand=status&expand=info", connectorsTable, below("connectors"), connectorTable},
		{"rules", "/rules", rulesTable, below("rules"), fieldTable},
		{"groups", "/groups", groupsTable, below("groups"), groupTable},
		{"dead-letters", "/dead-letters", deadTable, below("dead-letters"), deadEventsTable},
		{"connections", "/connections", namesTable, below("connections"), fieldTable},
		{"pipelines", "/pipelines", namesTable, below("pipelines"), fieldTable},
	}
}

func newGet() *cobra.Command {
	var internal bool
	kinds := gettables()
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.kind
	}
	cmd := &cobra.Command{
		Use:       "get " + strings.Join(names, "|") + " [NAME]",
		Short:     "Show what a node holds",
		ValidArgs: names,
		Args:      args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, given []string) error {
			for _, k := range kinds {
				// "topic" and "topics" are the same here.
				if given[0] != k.kind && given[0]+"s" != k.kind {
					continue
				}
				if len(given) == 2 {
					return showOne(cmd, k.one(given[1]), k.oneForm)
				}
				path := k.list
				if internal && k.kind == "topics" {
					path += "?internal=true"
				}
				return showOne(cmd, path, k.listForm)
			}
			return usagef("%s: there is no such thing; choose %s", given[0], strings.Join(names, ", "))
		},
	}
	cmd.Flags().BoolVar(&internal, "internal", false, "with topics: Millrace's own ones too")
	outputFlag(cmd)
	clientFlags(cmd)
	return cmd
}

// showOne reads a path and shows the answer as -o says.
func showOne(cmd *cobra.Command, path string, tabular func(json.RawMessage) (table, error)) error {
	form, err := form(cmd)
	if err != nil {
		return err
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	raw, err := c.raw(cmd.Context(), http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return show(cmd.OutOrStdout(), form, raw, tabular)
}
