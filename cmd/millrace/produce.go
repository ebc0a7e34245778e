package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
)

// A request carries as many lines as are at hand, within these bounds.
const (
	produceEvents = 500
	produceBytes  = 1 << 20
	produceLine   = 16 << 20 // the longest line
)

// produceOptions fill in what a line of plain data lacks.
type produceOptions struct {
	typ, source, subject string
	key, keyField        string
}

func newProduce() *cobra.Command {
	var o produceOptions
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Publish lines of JSON from stdin",
		Long: `Publish lines of JSON from stdin. A line that is an object with "specversion" is
a CloudEvent and goes as it is; any other JSON value is the data of a new event.`,
		Example: "  millrace produce orders --type order.created --key-field customer < orders.ndjson",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if o.key != "" && o.keyField != "" {
				return usagef("--key and --key-field exclude each other")
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr(), "published", "events", 0)
			defer p.done()
			return produce(cmd.Context(), c, given[0], cmd.InOrStdin(), o, p)
		},
	}
	cmd.Flags().StringVar(&o.typ, "type", "millrace.produced", "type of the events made from data")
	cmd.Flags().StringVar(&o.source, "source", "/millrace/produce", "source of the events made from data")
	cmd.Flags().StringVar(&o.subject, "subject", "", "subject of the events made from data")
	cmd.Flags().StringVar(&o.key, "key", "", "partitionkey of the events made from data")
	cmd.Flags().StringVar(&o.keyField, "key-field", "", "field of the data, dotted, that holds the partitionkey")
	clientFlags(cmd)
	return cmd
}

// produce publishes every line of in. Lines go out in batches as they come: a
// batch is sent when it is full or when no further line is at hand.
func produce(ctx context.Context, c *client, topic string, in io.Reader, o produceOptions, p *progress) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	var batch bytes.Buffer
	count, first, line := 0, 0, 0 // events in the batch, the line of its first, lines read
	flush := func() error {
		if count == 0 {
			return nil
		}
		batch.WriteByte(']')
		header := http.Header{"Content-Type": {"application/cloudevents-batch+json"}}
		res, err := c.send(ctx, http.MethodPost, pathOf("topics", topic, "events"), header, batch.Bytes())
		if err != nil {
			return fmt.Errorf("lines %d to %d: %w", first, line, err)
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		p.add(count)
		batch.Reset()
		count = 0
		return nil
	}
	for {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line+1, err)
		}
		text = bytes.TrimSpace(text)
		if len(text) > 0 {
			e, err := o.event(text)
			if err != nil {
				return errors.Join(flush(), fmt.Errorf("line %d: %w", line+1, err))
			}
			if count == 0 {
				first = line + 1
				batch.WriteByte('[')
			} else {
				batch.WriteByte(',')
			}
			batch.Write(e)
			count++
		}
		line++
		if count >= produceEvents || batch.Len() >= produceBytes || lines.Buffered() == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// readLine returns the next line without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > produceLine:
			return nil, fmt.Errorf("longer than %d MiB", produceLine>>20)
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// event makes a structured CloudEvent of one line.
func (o *produceOptions) event(line []byte) ([]byte, error) {
	if !gjson.ValidBytes(line) {
		return nil, errors.New("not JSON")
	}
	if line[0] == '{' && gjson.GetBytes(line, "specversion").Exists() {
		return line, nil
	}
	e := map[string]any{
		"specversion":     "1.0",
		"id":              rand.Text(),
		"source":          o.source,
		"type":            o.typ,
		"datacontenttype": "application/json",
		"data":            json.RawMessage(line),
	}
	if o.subject != "" {
		e["subject"] = o.subject
	}
	key := o.key
	if o.keyField != "" {
		v := gjson.GetBytes(line, o.keyField)
		if !v.Exists() {
			return nil, fmt.Errorf("--key-field: %s is not in it", o.keyField)
		}
		key = v.String()
	}
	if key != "" {
		e["partitionkey"] = key
	}
	return json.Marshal(e)
}
