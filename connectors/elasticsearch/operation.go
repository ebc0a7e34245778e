package elasticsearch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/formats"
)

// maxID is the length of a document's id that servers take, in bytes.
const maxID = 512

// operation is one line or pair of lines of a bulk request.
type operation struct {
	record  int // number in the write
	index   string
	id      string
	version int64 // 0 = none
	delete  bool
	at, end int // its bytes in the request
}

// The bits of a version: the topic's incarnation, whose ids rise, above the offset
// in the queue. So what comes from a topic that was made again is newer.
const (
	offsetBits = 40
	topicBits  = 63 - offsetBits
)

// versionOf is the version of what a record says, from the place where its bytes
// first stood: a redriven event keeps it.
func versionOf(r *event.Record) (int64, error) {
	if r.Origin.Topic >= 1<<topicBits || r.Origin.Offset >= 1<<offsetBits || r.Origin.Offset < 0 || r.Origin.IsZero() {
		return 0, fmt.Errorf("external.version: the place %s makes no version: set it to false", r.Origin)
	}
	return int64(r.Origin.Topic)<<offsetBits | r.Origin.Offset, nil
}

// topicOf is the incarnation that a version came from.
func topicOf(version int64) int64 { return version >> offsetBits }

// idOf is the document's id: the key, or for events without one their place and
// id, which split events need to be told apart.
func (c *config) idOf(r *event.Record) string {
	id := r.Key
	if id == "" || c.KeyIgnore {
		place := r.Topic + "/" + strconv.Itoa(r.Queue) + "/" + strconv.FormatInt(r.Offset, 10)
		if !r.Origin.IsZero() {
			place = r.Origin.String()
		}
		id = place + "/" + r.ID
	}
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = "sha256:" + hex.EncodeToString(sum[:])
	}
	return id
}

// prepare makes the operation of a record and appends its lines to body. ok is
// false where the record asks for nothing; an error is permanent.
func (c *config) prepare(body []byte, r *event.Record) (out []byte, op operation, ok bool, err error) {
	keyed := r.Key != "" && !c.KeyIgnore
	op = operation{index: c.indexOf(r.Topic), id: c.idOf(r), at: len(body)}
	if r.Tombstone() {
		switch {
		case c.Nulls == nullIgnore:
			return body, op, false, nil
		case c.Nulls == nullFail:
			return body, op, false, errors.New("behavior.on.null.values: the event is a tombstone: set delete or ignore to take it")
		case !keyed:
			return body, op, false, errors.New("behavior.on.null.values: the event is a tombstone without a key, which deletes nothing: set ignore to drop it")
		}
		op.delete = true
	}
	if keyed && c.Versions {
		if op.version, err = versionOf(r); err != nil {
			return body, op, false, err
		}
	}
	out = op.appendAction(body)
	if !op.delete {
		if out, err = c.appendDocument(out, &r.Event); err != nil {
			return body, op, false, err
		}
	}
	op.end = len(out)
	return out, op, true, nil
}

func (op *operation) appendAction(b []byte) []byte {
	if op.delete {
		b = append(b, `{"delete":{"_index":`...)
	} else {
		b = append(b, `{"index":{"_index":`...)
	}
	b = event.AppendQuoted(b, op.index)
	b = append(b, `,"_id":`...)
	b = event.AppendQuoted(b, op.id)
	if op.version > 0 {
		b = append(b, `,"version":`...)
		b = strconv.AppendInt(b, op.version, 10)
		b = append(b, `,"version_type":"external"`...)
	}
	return append(b, "}}\n"...)
}

// appendDocument appends the document on one line.
func (c *config) appendDocument(b []byte, e *event.Event) ([]byte, error) {
	at := len(b)
	if c.Value == "event" {
		b = event.AppendJSON(b, e)
	} else {
		data := bytes.TrimSpace(e.Data)
		if !e.JSON() || len(data) == 0 || data[0] != '{' || !formats.ValidJSON(data) {
			return b, fmt.Errorf("the data is no JSON object (%s): shape it with transforms, or set document.value to event", contentType(e))
		}
		b = append(b, data...)
	}
	if bytes.ContainsAny(b[at:], "\r\n") { // only between tokens; in strings they are escaped
		var line bytes.Buffer
		if err := json.Compact(&line, b[at:]); err != nil {
			return b[:at], err
		}
		b = append(b[:at], line.Bytes()...)
	}
	return append(b, '\n'), nil
}

func contentType(e *event.Event) string {
	if e.ContentType == "" {
		return "application/json"
	}
	return e.ContentType
}

// errSame fails the second of two events that were made from one and would be one
// document.
var errSame = connectors.Permanent(errors.New("another event split from the same one has this key, so one would overwrite the other: set key.ignore to true"))
