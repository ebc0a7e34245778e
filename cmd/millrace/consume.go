package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
)

// consumePage is how many events one request asks for.
const consumePage = 1000

// consumeOptions say what to read and how to show it.
type consumeOptions struct {
	from   string
	queue  int // -1 = all
	limit  int // 0 = all
	follow bool
	form   string
}

func newConsume() *cobra.Command {
	var o consumeOptions
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print events of a topic",
		Long: `Print events of a topic, one a line: those it has, queue by queue, or with
--follow also those that come, as they come. It reads beside all groups and
moves no checkpoint.`,
		Example: "  millrace consume orders --from earliest -o data\n  millrace consume orders --follow",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			switch o.form {
			case "event", "data", "table":
			default:
				return usagef("-o: %q is not event, data or table", o.form)
			}
			if o.from == "" {
				o.from = "earliest"
				if o.follow {
					o.from = "latest"
				}
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			p := &eventPrinter{out: cmd.OutOrStdout(), form: o.form, left: o.limit}
			read := consumeStored
			if o.follow {
				read = consumeStream
			}
			err = read(cmd.Context(), c, given[0], o, p)
			if errors.Is(err, errEnough) || o.follow && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.from, "from", "", "earliest, latest, an offset or an RFC 3339 time; default earliest, with --follow latest")
	cmd.Flags().IntVar(&o.queue, "queue", -1, "only this queue; -1: all")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "stop after so many events; 0: do not")
	cmd.Flags().BoolVar(&o.follow, "follow", false, "go on with what comes, until interrupted")
	cmd.Flags().StringVarP(&o.form, "output", "o", "event", "event (CloudEvents JSON), data or table")
	clientFlags(cmd)
	return cmd
}

// errEnough ends a consume that has printed what it was asked for.
var errEnough = errors.New("enough")

// consumeStored prints what the topic's queues hold, queue by queue.
func consumeStored(ctx context.Context, c *client, topic string, o consumeOptions, p *eventPrinter) error {
	queues := []int{o.queue}
	if o.queue < 0 {
		n, err := queueCount(ctx, c, topic)
		if err != nil {
			return err
		}
		queues = queues[:0]
		for q := range n {
			queues = append(queues, q)
		}
	}
	for _, q := range queues {
		from := o.from
		for {
			query := url.Values{"queue": {strconv.Itoa(q)}, "from": {from}, "limit": {strconv.Itoa(consumePage)}}
			var page []json.RawMessage
			if err := c.call(ctx, http.MethodGet, pathOf("topics", topic, "events")+"?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				if err := p.print(e); err != nil {
					return err
				}
			}
			last, err := strconv.ParseInt(gjson.GetBytes(page[len(page)-1], "mroffset").String(), 10, 64)
			if err != nil {
				return fmt.Errorf("topic %s: an event without mroffset: %w", topic, err)
			}
			from = strconv.FormatInt(last+1, 10)
		}
	}
	return nil
}

// queueCount asks how many queues a topic has.
func queueCount(ctx context.Context, c *client, topic string) (int, error) {
	var t struct{ Queues int }
	err := c.call(ctx, http.MethodGet, pathOf("topics", topic), nil, &t)
	return t.Queues, err
}

// consumeStream prints what comes over a stream of server-sent events, and goes
// on after the last one when the connection drops.
func consumeStream(ctx context.Context, c *client, topic string, o consumeOptions, p *eventPrinter) error {
	query := url.Values{"from": {o.from}}
	if o.queue >= 0 {
		query.Set("queue", strconv.Itoa(o.queue))
	}
	path := pathOf("topics", topic, "events") + "?" + query.Encode()
	header := http.Header{"Accept": {"text/event-stream"}}
	for connected := false; ; {
		res, err := c.send(ctx, http.MethodGet, path, header, nil)
		if err == nil {
			connected = true
			var last string
			last, err = readStream(res.Body, p.print)
			res.Body.Close()
			if last != "" {
				header.Set("Last-Event-Id", last)
			}
		}
		_, refused := errors.AsType[*apiError](err)
		if errors.Is(err, errEnough) || errors.Is(err, errEnded) || ctx.Err() != nil || refused || !connected {
			return errors.Join(ctx.Err(), err)
		}
		if err := pause(ctx, streamPause); err != nil {
			return err
		}
	}
}

// eventPrinter writes events, one a line.
type eventPrinter struct {
	out  io.Writer
	form string
	left int // 0 = any number
	head bool
}

// print writes one structured CloudEvent; errEnough after the last one wanted.
func (p *eventPrinter) print(e []byte) error {
	var line string
	switch p.form {
	case "data":
		v := gjson.GetBytes(e, "data")
		if line = v.Raw; v.Type == gjson.String && !isJSONEvent(e) {
			line = v.String()
		}
		if b := gjson.GetBytes(e, "data_base64"); b.Exists() {
			line = b.String()
		}
	case "table":
		if !p.head {
			p.head = true
			if _, err := fmt.Fprintf(p.out, "%-5s %-10s %-30s %-24s %-16s %s\n", "QUEUE", "OFFSET", "TIME", "TYPE", "KEY", "DATA"); err != nil {
				return err
			}
		}
		f := func(name string) string { return gjson.GetBytes(e, name).String() }
		line = fmt.Sprintf("%-5s %-10s %-30s %-24s %-16s %s", f("mrqueue"), f("mroffset"), f("time"), f("type"), f("partitionkey"), f("data"))
	default:
		line = string(e)
	}
	if _, err := fmt.Fprintln(p.out, strings.ReplaceAll(line, "\n", " ")); err != nil {
		return err
	}
	if p.left--; p.left == 0 {
		return errEnough
	}
	return nil
}

// isJSONEvent reports whether a structured event's data is JSON.
func isJSONEvent(e []byte) bool {
	ct := gjson.GetBytes(e, "datacontenttype").String()
	return ct == "" || strings.Contains(ct, "json")
}
