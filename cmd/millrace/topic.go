package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

func newTopic() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Make and describe topics",
		Args:  args(cobra.NoArgs),
		RunE:  showHelp,
	}
	cmd.AddCommand(newTopicCreate(), newTopicDescribe())
	return cmd
}

func newTopicCreate() *cobra.Command {
	var (
		queues     int
		typ        string
		durability string
		age        string
		bytes      int64
	)
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a topic, or change the durability or retention of one",
		Example: "  millrace topic create orders --queues 4 --retention-age 72h",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			body := map[string]any{}
			retention := map[string]any{}
			for flag, set := range map[string]func(){
				"queues":          func() { body["queues"] = queues },
				"type":            func() { body["type"] = typ },
				"durability":      func() { body["durability"] = durability },
				"retention-age":   func() { retention["age"] = age },
				"retention-bytes": func() { retention["bytes"] = bytes },
			} {
				if cmd.Flags().Changed(flag) {
					set()
				}
			}
			if len(retention) > 0 {
				body["retention"] = retention
			}
			if err := c.call(cmd.Context(), http.MethodPut, pathOf("topics", given[0]), body, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "topic %s is there\n", given[0])
			return err
		},
	}
	cmd.Flags().IntVar(&queues, "queues", 1, "number of queues; fixed once the topic is made")
	cmd.Flags().StringVar(&typ, "type", "normal", "normal or compacted")
	cmd.Flags().StringVar(&durability, "durability", "sync", "sync or async")
	cmd.Flags().StringVar(&age, "retention-age", "", "how long events are kept, such as 72h or 40d; default: for good")
	cmd.Flags().Int64Var(&bytes, "retention-bytes", 0, "how many bytes a queue keeps; 0: any number")
	clientFlags(cmd)
	return cmd
}

func newTopicDescribe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a topic's settings and what each of its queues holds",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return showOne(cmd, pathOf("topics", given[0]), topicTable)
		},
	}
	outputFlag(cmd)
	clientFlags(cmd)
	return cmd
}
