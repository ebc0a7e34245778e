package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

// The forms in which an answer is shown.
const (
	formTable = "table"
	formJSON  = "json"
	formYAML  = "yaml"
)

// table is what -o table shows.
type table struct {
	head []string
	rows [][]string
}

// add appends one row; cells are shown by fmt's %v, an empty one as "-".
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = strings.ReplaceAll(fmt.Sprint(c), "\n", " ")
		if row[i] == "" || c == nil {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// outputFlag adds -o.
func outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("output", "o", formTable, "json, yaml or table")
}

// form returns what -o says.
func form(cmd *cobra.Command) (string, error) {
	f, err := cmd.Flags().GetString("output")
	if err != nil {
		return "", err
	}
	switch f {
	case formTable, formJSON, formYAML:
		return f, nil
	}
	return "", usagef("-o: %q is not json, yaml or table", f)
}

// show writes raw, the JSON a node answered, in the form asked for; tabular
// makes the table of it.
func show(w io.Writer, form string, raw json.RawMessage, tabular func(json.RawMessage) (table, error)) error {
	switch form {
	case formJSON:
		var b bytes.Buffer
		if err := json.Indent(&b, raw, "", "  "); err != nil {
			return err
		}
		b.WriteByte('\n')
		_, err := b.WriteTo(w)
		return err
	case formYAML:
		return showYAML(w, raw)
	}
	t, err := tabular(raw)
	if err != nil {
		return err
	}
	return t.write(w)
}

// showYAML writes JSON as YAML: a YAML reader takes JSON as it is, numbers and
// the order of keys included, so only the style has to change.
func showYAML(w io.Writer, raw json.RawMessage) error {
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil {
		return err
	}
	blockStyle(&doc)
	b, err := yaml.Dump(&doc)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// blockStyle takes the brackets and quotes of JSON from a node and all below it.
func blockStyle(n *yaml.Node) {
	// A string that would read as something else keeps its quotes: the dumper sees
	// the tag. What is empty keeps its brackets.
	n.Style &^= yaml.DoubleQuotedStyle
	if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// write shows t with columns aligned.
func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}
