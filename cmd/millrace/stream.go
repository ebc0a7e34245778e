package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// streamPause is how long a dropped stream waits before it connects again.
const streamPause = time.Second

// readStream reads server-sent events and calls take with the data of each; it
// returns the id of the last one that take took. A stream that ends is io.EOF.
func readStream(r io.Reader, take func(data []byte) error) (last string, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	var (
		id   string
		data []byte
	)
	for {
		line, err := readLine(lines)
		if err != nil {
			return last, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if data != nil {
				if err := take(data); err != nil {
					return last, err
				}
				last, data = id, nil
			}
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
			if string(value) == "error" {
				return last, errors.New("the node ended the stream")
			}
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
