package pattern

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxText bounds a pattern's text, in bytes. Invariant 10.
const maxText = 64 << 10

// jval is a JSON value of a pattern, with its keys in order and its numbers as
// they were written.
type jval struct {
	kind kind
	s    string   // string, or a number's text
	keys []string // of an object
	vals []*jval  // of an object or array
}

// parse reads a pattern's JSON and refuses what encoding/json lets pass: keys
// given twice, text after the end.
func parse(raw []byte) (*jval, error) {
	if len(raw) > maxText {
		return nil, errorf("", "%d bytes long; at most %d are allowed", len(raw), maxText)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := parseValue(d, "")
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errorf("", "has text after its end")
	}
	return v, nil
}

func parseValue(d *json.Decoder, path string) (*jval, error) {
	t, err := d.Token()
	if err != nil {
		return nil, notJSON(d, path, err)
	}
	switch t := t.(type) {
	case string:
		return &jval{kind: kindString, s: t}, nil
	case json.Number:
		return &jval{kind: kindNumber, s: t.String()}, nil
	case bool:
		if t {
			return &jval{kind: kindTrue}, nil
		}
		return &jval{kind: kindFalse}, nil
	case json.Delim:
		if t == '{' {
			return parseObject(d, path)
		}
		return parseArray(d, path)
	}
	return &jval{kind: kindNull}, nil
}

func parseObject(d *json.Decoder, path string) (*jval, error) {
	v := &jval{kind: kindObject}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, notJSON(d, path, err)
		}
		key := t.(string) // the decoder hands out nothing else between members
		at := join(path, key)
		if seen[key] {
			return nil, errorf(at, "is given twice, and one would hide the other: put the alternatives in one list, or use $or")
		}
		seen[key] = true
		val, err := parseValue(d, at)
		if err != nil {
			return nil, err
		}
		v.keys, v.vals = append(v.keys, key), append(v.vals, val)
	}
	if _, err := d.Token(); err != nil {
		return nil, notJSON(d, path, err)
	}
	return v, nil
}

func parseArray(d *json.Decoder, path string) (*jval, error) {
	v := &jval{kind: kindArray}
	for d.More() {
		val, err := parseValue(d, indexed(path, len(v.vals)))
		if err != nil {
			return nil, err
		}
		v.vals = append(v.vals, val)
	}
	if _, err := d.Token(); err != nil {
		return nil, notJSON(d, path, err)
	}
	return v, nil
}

func notJSON(d *json.Decoder, path string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errorf(path, "is not JSON: it ends too early")
	}
	return errorf(path, "is not JSON: %v, after byte %d", err, d.InputOffset())
}
