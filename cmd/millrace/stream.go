package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// streamPause is how long a dropped stream waits before it connects again.
const streamPause = time.Second

// errEnded says that the node ended a stream for good; what it said follows.
var errEnded = errors.New("the stream has ended")

// readStream reads server-sent events and calls take with the data of each; it
// returns the id of the last one that take took. A stream that ends is io.EOF.
func readStream(r io.Reader, take func(data []byte) error) (last string, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	var (
		id, kind string
		data     []byte
	)
	for {
		line, err := readLine(lines)
		if err != nil {
			return last, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if kind == "end" {
				return last, fmt.Errorf("%w: %s", errEnded, data)
			}
			if data != nil {
				if err := take(data); err != nil {
					return last, err
				}
				last = id
			}
			kind, data = "", nil
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			id = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "event":
			kind = string(value)
		}
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
