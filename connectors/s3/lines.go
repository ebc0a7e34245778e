package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"strconv"
	"strings"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/formats"
	"millrace/schemas/spec"
)

// The types of events.
const (
	typeLine    = "millrace.s3.line"
	typeObject  = "millrace.s3.object"
	typeDeleted = "millrace.s3.deleted"
)

// Chunks grow from the first size to the second. The events' data are parts of
// them, so a line costs no copy.
const (
	firstChunk = 64 << 10
	maxChunk   = 1 << 20
)

// rawBytes is how much of an input that is too long goes into its failure.
const rawBytes = 64 << 10

func errTooLarge(limit spec.Bytes) error {
	return fmt.Errorf("larger than max.document.bytes (%d)", int64(limit))
}

// version is the id of an object's version.
func (s *source) version(o *object) string { return s.cfg.Bucket + "/" + o.Key + "@" + o.Etag }

func (s *source) typeOf(standard string) string {
	if s.cfg.Type != "" {
		return s.cfg.Type
	}
	return standard
}

// readDocument makes the whole object one event.
func (s *source) readDocument(o *object, b *batch) error {
	limit := int64(s.cfg.MaxDocument)
	data, err := io.ReadAll(io.LimitReader(o.body, limit+1))
	if err != nil {
		return o.judge(err)
	}
	if int64(len(data)) > limit {
		return dataError{errTooLarge(s.cfg.MaxDocument)}
	}
	b.add(&event.Event{
		ID: s.version(o), Source: sourceOf(s.cfg.Bucket), Type: s.typeOf(typeObject), Subject: o.Key, Key: o.Key,
		Time: o.Modified, ContentType: o.contentType(data), Data: data,
	})
	return s.done(o, b)
}

// contentType is what the object's metadata say, unless that is nothing or does
// not fit; then what name and content say.
func (o *object) contentType(data []byte) string {
	media, _, err := mime.ParseMediaType(o.content)
	switch {
	case err != nil, strings.HasSuffix(media, "/octet-stream"), o.Gzip && strings.HasSuffix(media, "gzip"),
		event.IsJSON(media) && !formats.ValidJSON(data):
		return formats.ContentType(plainName(o.Key), data)
	}
	return o.content
}

// readLines makes an event of each line, or record.
func (s *source) readLines(ctx context.Context, o *object, b *batch) error {
	format := s.cfg.formatOf(o.Key)
	if o.records == nil {
		o.records = formats.New(formats.Options{
			Format: format, CloudEvents: s.cfg.CloudEvents == "auto",
			Delimiter: formats.Delimiter(s.cfg.Delimiter, plainName(o.Key)), Header: s.cfg.Header, Limit: int(s.cfg.MaxLine),
		})
		if o.Offset > 0 {
			if err := s.resume(ctx, o); err != nil {
				return err
			}
		}
	}
	base := event.Event{Source: sourceOf(s.cfg.Bucket), Type: s.typeOf(typeLine), Subject: o.Key, Time: o.Modified, ContentType: "application/json"}
	if format == formats.Text {
		base.ContentType = "text/plain"
	}
	prefix, key := s.version(o)+":", connectors.FieldPath(s.cfg.Key)
	for !b.full() {
		line, n, err := o.next(int(s.cfg.MaxLine))
		if err != nil {
			return err
		}
		if n == 0 {
			return s.done(o, b)
		}
		e := base
		var bad error
		if n > int64(len(line)) {
			bad = fmt.Errorf("longer than max.line.bytes (%d)", int64(s.cfg.MaxLine))
		} else {
			var ok bool
			if ok, bad = o.records.Read(line, o.Offset, &e); ok && bad == nil {
				if e.ID == "" {
					e.ID, e.Key = prefix+strconv.FormatInt(o.Offset, 10), formats.Key(e.Data, key)
				}
				b.add(&e)
			}
		}
		if bad != nil {
			b.fail(fmt.Sprintf("s3://%s/%s:%d", s.cfg.Bucket, o.Key, o.Line+1), bytes.Clone(line[:min(len(line), rawBytes)]), bad)
		}
		o.Offset += n
		o.Line += o.records.Count(line)
	}
	return nil
}

// resume shows the records the object's beginning, where they need it.
func (s *source) resume(ctx context.Context, o *object) error {
	var raw remembering
	err := o.records.Resume(func() (io.ReadCloser, error) {
		body, _, err := s.get(ctx, o, 0)
		if err != nil {
			raw.err = err
			return nil, err
		}
		raw.ReadCloser = body
		r, err := o.plain(&raw)
		if err != nil {
			_ = body.Close()
		}
		return r, err
	})
	if err != nil && raw.err == nil {
		return dataError{err}
	}
	return err
}

// next returns the next line, with its end, and how many bytes it takes: more than
// line holds where it is too long, and none at the end.
func (o *object) next(limit int) (line []byte, n int64, err error) {
	for {
		n := o.records.Split(o.rest, o.eof)
		if n == 0 && len(o.rest) > limit {
			if n = o.records.Split(o.rest, true); n == len(o.rest) {
				return o.skip()
			}
		}
		switch {
		case n > limit+len("\r\n"):
			line = bytes.Clone(o.rest[:min(rawBytes, limit)])
			o.rest = o.rest[n:]
			return line, int64(n), nil
		case n > 0:
			line, o.rest = o.rest[:n:n], o.rest[n:]
			return line, int64(n), nil
		case o.eof:
			return nil, 0, nil
		}
		if err := o.fill(); err != nil {
			return nil, 0, err
		}
	}
}

// skip looks for the end of a line that is too long to keep.
func (o *object) skip() (head []byte, n int64, err error) {
	head = bytes.Clone(o.rest[:min(len(o.rest), rawBytes)])
	for {
		end := bytes.IndexByte(o.rest, '\n') + 1
		if end == 0 {
			end = len(o.rest)
		}
		n += int64(end)
		done := end > 0 && o.rest[end-1] == '\n'
		o.rest = o.rest[end:]
		if done || o.eof {
			return head, n, nil
		}
		if err := o.fill(); err != nil {
			return nil, 0, err
		}
	}
}

// fill makes o.rest longer, or finds the end.
func (o *object) fill() error {
	o.chunk = min(max(firstChunk, 2*o.chunk), maxChunk)
	size := int64(o.chunk)
	if !o.Gzip { // one byte more than there is, to meet the end
		size = min(size, max(o.Size-o.Offset-int64(len(o.rest)), 0)+1)
	}
	buf := make([]byte, len(o.rest), len(o.rest)+int(size))
	copy(buf, o.rest)
	for len(buf) < cap(buf) && o.failed == nil && !o.eof {
		n, err := o.body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			o.eof = true
		} else if err != nil {
			o.failed = o.judge(err)
		}
	}
	if len(buf) == len(o.rest) && o.failed != nil { // after the lines before it
		return o.failed
	}
	o.rest = buf
	return nil
}
