package rpc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

const (
	subtype = "millrace" // content-subtype: application/grpc+millrace
	version = 1          // of every message, its first byte
	// maxItems bounds the records, or events and links, of one message, so that a
	// small one cannot ask for much memory. Invariant 10.
	maxItems = 1 << 20
)

var errWire = errors.New("malformed message")

// message is a request or an answer; WIRE.md says what stands in it.
type message interface {
	encode(b []byte) []byte
	decode(r *reader)
}

// codec is ours for our messages and protobuf's for all others, so that other
// services can live on the same server.
type codec struct{ other encoding.CodecV2 }

func newCodec() codec { return codec{other: encoding.GetCodecV2(proto.Name)} }

// Name implements encoding.CodecV2.
func (codec) Name() string { return subtype }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(message)
	if !ok {
		return c.other.Marshal(v)
	}
	return mem.BufferSlice{mem.SliceBuffer(marshal(m))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(message)
	if !ok {
		return c.other.Unmarshal(data, v)
	}
	// A copy of its own: what is decoded shares its memory.
	return unmarshal(data.Materialize(), m)
}

func marshal(m message) []byte { return m.encode([]byte{version}) }

func unmarshal(b []byte, m message) error {
	if len(b) == 0 {
		return errWire
	}
	if b[0] != version {
		return fmt.Errorf("%w: it has version %d, this side speaks version %d: run the same release on both", errWire, b[0], version)
	}
	r := reader{b: b[1:]}
	m.decode(&r)
	if r.bad || len(r.b) > 0 {
		return errWire
	}
	return nil
}

// jsonOf is a small message: JSON after the version.
type jsonOf[T any] struct{ V T }

func (m *jsonOf[T]) encode(b []byte) []byte {
	j, err := json.Marshal(&m.V)
	if err != nil {
		panic(err) // T is one of ours: a bug that any test finds
	}
	return append(b, j...)
}

func (m *jsonOf[T]) decode(r *reader) {
	if err := json.Unmarshal(r.b, &m.V); err != nil {
		r.bad = true
	}
	r.b = nil
}

// empty is an answer without content.
type empty struct{}

func (*empty) encode(b []byte) []byte { return b }
func (*empty) decode(*reader)         {}

// reader takes a message apart; after the first fault everything is zero.
type reader struct {
	b     []byte
	bad   bool
	items int
}

// item counts one record, event or link.
func (r *reader) item() {
	if r.items++; r.items > maxItems {
		r.fail()
	}
}

func (r *reader) fail() { r.bad, r.b = true, nil }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// int reads a number that must fit an int.
func (r *reader) int() int {
	v := r.varint()
	if int64(int(v)) != v {
		r.fail()
	}
	return int(v)
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// bytes shares the message's memory.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) string() string { return string(r.bytes()) }

// optional reads bytes that may be nil.
func (r *reader) optional() []byte {
	if r.byte() == 0 || r.bad {
		return nil
	}
	return r.bytes()
}

// count reads how many things follow, each of size bytes at least.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func appendOptional(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return appendBytes(append(b, 1), v)
}

func appendInt(b []byte, v int) []byte { return binary.AppendVarint(b, int64(v)) }
