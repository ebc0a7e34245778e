package event

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
	"unsafe"
)

// The log's record format, version 1. A run of records shares what it can: a
// field equal to the previous record's is not written again.
//
//	record  = length uvarint, body
//	body    = flags uvarint, id, [source], [type], [contentType], [schema],
//	          [subject], [key], [time], [ext], data
//	string  = length uvarint, bytes
//	time    = seconds varint, nanoseconds uvarint (since 1970-01-01 UTC)
//	ext     = count uvarint, count × (kind byte, name string, value string)
//	data    = the rest of the body
const (
	flagSource  = 1 << iota // source follows, else as in the record before
	flagType                // likewise
	flagContent             // likewise
	flagSchema              // likewise
	flagSubject             // follows, else empty
	flagKey
	flagTime
	flagExt
	flagTombstone // data is nil
	flagsEnd
)

// ErrRecord says that bytes are not a record of the log.
var ErrRecord = errors.New("malformed record")

// AppendRecord appends the log form of e, which follows prev in its run (nil
// for the first).
func AppendRecord(dst []byte, prev, e *Event) []byte {
	if prev == nil {
		prev = &Event{}
	}
	var flags uint64
	set := func(cond bool, f uint64) {
		if cond {
			flags |= f
		}
	}
	set(e.Source != prev.Source, flagSource)
	set(e.Type != prev.Type, flagType)
	set(e.ContentType != prev.ContentType, flagContent)
	set(e.Schema != prev.Schema, flagSchema)
	set(e.Subject != "", flagSubject)
	set(e.Key != "", flagKey)
	set(!e.Time.IsZero(), flagTime)
	set(len(e.Ext) > 0, flagExt)
	set(e.Data == nil, flagTombstone)

	n := uvarintLen(flags) + stringLen(e.ID) + len(e.Data)
	opt := func(f uint64, s string) {
		if flags&f != 0 {
			n += stringLen(s)
		}
	}
	opt(flagSource, e.Source)
	opt(flagType, e.Type)
	opt(flagContent, e.ContentType)
	opt(flagSchema, e.Schema)
	opt(flagSubject, e.Subject)
	opt(flagKey, e.Key)
	sec, nsec := e.Time.Unix(), uint64(e.Time.Nanosecond())
	if flags&flagTime != 0 {
		n += varintLen(sec) + uvarintLen(nsec)
	}
	if flags&flagExt != 0 {
		n += uvarintLen(uint64(len(e.Ext)))
		for i := range e.Ext {
			n += 1 + stringLen(e.Ext[i].Name) + stringLen(e.Ext[i].Value)
		}
	}

	dst = binary.AppendUvarint(dst, uint64(n))
	dst = binary.AppendUvarint(dst, flags)
	dst = appendString(dst, e.ID)
	put := func(f uint64, s string) {
		if flags&f != 0 {
			dst = appendString(dst, s)
		}
	}
	put(flagSource, e.Source)
	put(flagType, e.Type)
	put(flagContent, e.ContentType)
	put(flagSchema, e.Schema)
	put(flagSubject, e.Subject)
	put(flagKey, e.Key)
	if flags&flagTime != 0 {
		dst = binary.AppendVarint(dst, sec)
		dst = binary.AppendUvarint(dst, nsec)
	}
	if flags&flagExt != 0 {
		dst = AppendAttrs(dst, e.Ext)
	}
	return append(dst, e.Data...)
}

// DecodeRecord reads one record into e, which must hold the record before it in
// its run (zero for the first), and returns what follows. Strings and Data of e
// share b's memory: b must never change afterwards. The error is ErrRecord.
func DecodeRecord(b []byte, e *Event) (rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, ErrRecord
	}
	d := decoder{b: b[w : w+int(n)]}
	rest = b[w+int(n):]
	flags := d.uvarint()
	if flags >= flagsEnd {
		return nil, ErrRecord
	}
	e.ID = d.string()
	d.opt(flags&flagSource, &e.Source)
	d.opt(flags&flagType, &e.Type)
	d.opt(flags&flagContent, &e.ContentType)
	d.opt(flags&flagSchema, &e.Schema)
	e.Subject, e.Key, e.Time, e.Ext, e.Data = "", "", time.Time{}, nil, nil
	d.opt(flags&flagSubject, &e.Subject)
	d.opt(flags&flagKey, &e.Key)
	if flags&flagTime != 0 {
		sec := d.varint()
		nsec := d.uvarint()
		if nsec >= 1e9 {
			return nil, ErrRecord
		}
		e.Time = time.Unix(sec, int64(nsec)).UTC()
	}
	if flags&flagExt != 0 {
		e.Ext = d.attrs()
	}
	if d.bad {
		return nil, ErrRecord
	}
	if flags&flagTombstone == 0 {
		e.Data = slices.Clip(d.b)
	} else if len(d.b) > 0 {
		return nil, ErrRecord
	}
	return rest, nil
}

// AppendAttrs appends attributes as count and (kind, name, value) each.
func AppendAttrs(dst []byte, attrs []Attr) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(attrs)))
	for i := range attrs {
		dst = append(dst, byte(attrs[i].Kind))
		dst = appendString(dst, attrs[i].Name)
		dst = appendString(dst, attrs[i].Value)
	}
	return dst
}

// DecodeAttrs reads what AppendAttrs wrote and returns what follows; the
// strings share b's memory.
func DecodeAttrs(b []byte) (attrs []Attr, rest []byte, err error) {
	d := decoder{b: b}
	attrs = d.attrs()
	if d.bad {
		return nil, nil, ErrRecord
	}
	return attrs, d.b, nil
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.bad, d.b = true, nil }

func (d *decoder) uvarint() uint64 {
	v, w := binary.Uvarint(d.b)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[w:]
	return v
}

func (d *decoder) varint() int64 {
	v, w := binary.Varint(d.b)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[w:]
	return v
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	if n == 0 {
		return ""
	}
	s := unsafe.String(&d.b[0], int(n))
	d.b = d.b[n:]
	return s
}

func (d *decoder) opt(present uint64, s *string) {
	if present != 0 {
		*s = d.string()
	}
}

func (d *decoder) attrs() []Attr {
	n := d.uvarint()
	if n > uint64(len(d.b)) { // each takes at least three bytes
		d.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	attrs := make([]Attr, 0, min(n, 64))
	for range n {
		if len(d.b) == 0 {
			d.fail()
			return nil
		}
		kind := Kind(d.b[0])
		if kind > Int {
			d.fail()
			return nil
		}
		d.b = d.b[1:]
		attrs = append(attrs, Attr{Kind: kind, Name: d.string(), Value: d.string()})
	}
	if d.bad {
		return nil
	}
	return attrs
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func stringLen(s string) int { return uvarintLen(uint64(len(s))) + len(s) }

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

func varintLen(v int64) int { return uvarintLen(uint64(v)<<1 ^ uint64(v>>63)) }
