package transforms

import (
	"errors"
	"fmt"

	"millrace/bus/event"
)

type unwrapConfig struct {
	Unwrap struct {
		Delete string `json:"delete" doc:"What a deleted row becomes: tombstone (no data, the key stays), drop (nothing), or rewrite (the row as it was; every event gets a field __deleted, \"true\" or \"false\")." default:"tombstone" spec:"enum=tombstone|drop|rewrite"`
	} `json:"unwrap" doc:"How to take rows out of the envelopes of change data; {} for the defaults."`
	common
}

func unwrapKind() Kind {
	return kindOfStep(Kind{
		Name:    "unwrap",
		Summary: "Replaces the envelope of a database change by the row itself.",
		Docs: `The envelope is ` + "`{\"before\", \"after\", \"op\", \"source\"}`" + `, alone or as the ` + "`payload`" + ` of a message with a schema. Created, updated and
snapshot rows (` + "`c`, `u`, `r`" + `) become their ` + "`after`" + `, deleted ones (` + "`d`" + `) what ` + "`delete`" + ` says. Any other data fails the event;
tombstones pass.`,
		Example: `unwrap: {delete: drop}`,
	}, func(_ *compiler, config unwrapConfig) (step, error) {
		return &unwrapStep{del: config.Unwrap.Delete}, nil
	})
}

type unwrapStep struct{ del string }

func (st *unwrapStep) apply(s *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	if e.Tombstone() {
		return append(out, e), nil
	}
	if err := needJSON(&e); err != nil {
		return out, err
	}
	envelope := e.Data
	op, err := memberOf(envelope, "op")
	if err != nil {
		return out, err
	}
	if op == nil {
		payload, err := memberOf(envelope, "payload")
		if err != nil {
			return out, err
		}
		if payload != nil {
			envelope = payload
			if op, err = memberOf(envelope, "op"); err != nil {
				return out, err
			}
		}
	}
	image, deleted := "after", "false"
	switch string(op) {
	case `"c"`, `"u"`, `"r"`:
	case `"d"`:
		switch st.del {
		case "drop":
			return out, nil
		case "tombstone":
			e.Data = nil
			return append(out, e), nil
		}
		image, deleted = "before", "true"
	case "":
		return out, errors.New("data is no change of a row: it has no op")
	default:
		return out, fmt.Errorf("data is no change of a row: op is %s, not c, u, r or d", op)
	}
	row, err := memberOf(envelope, image)
	if err != nil {
		return out, err
	}
	if row == nil || row[0] != '{' {
		return out, fmt.Errorf("op is %s, but %s holds no row", op, image)
	}
	d := doc{b: row}
	if st.del == "rewrite" {
		if s.buf, err = d.set([]seg{{key: "__deleted"}}, event.AppendQuoted(nil, deleted), s.buf); err != nil {
			return out, err
		}
	}
	e.Data = d.b
	return append(out, e), nil
}

// memberOf returns the raw value of a member of an object, nil where there is none.
func memberOf(b []byte, key string) ([]byte, error) { return valueAt(b, []seg{{key: key}}) }

// valueAt returns the raw value at segs, nil where there is none.
func valueAt(b []byte, segs []seg) ([]byte, error) {
	from, to, found, err := locate(b, segs)
	if err != nil || !found {
		return nil, err
	}
	return b[from:to:to], nil
}
