package cell

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"millrace/bus/event"
)

// numberBits is how wide a BIT column may be to be written as a number that every
// reader of JSON can hold.
const numberBits = 53

// Append writes a value as JSON. v is what the binlog gave (live) or what a
// prepared statement did; both must look the same.
func (c *Column) Append(dst []byte, v any, live bool) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	switch c.Kind {
	case KindInt, KindYear:
		return c.appendInt(dst, v)
	case KindUint64:
		dst, err := c.appendInt(append(dst, '"'), v)
		return append(dst, '"'), err
	case KindFloat, KindDouble:
		switch f := v.(type) {
		case float32:
			return appendFloat(dst, float64(f), 32), nil
		case float64:
			return appendFloat(dst, f, 64), nil
		}
	case KindBit:
		return c.appendBit(dst, v)
	case KindEnum, KindSet:
		if n, ok := v.(int64); ok {
			return c.appendListed(dst, uint64(n)) //nolint:gosec // a set's bits
		}
	case KindUnknown, KindDecimal, KindDate, KindDatetime, KindTimestamp, KindTime, KindText, KindBinary, KindJSON, KindGeometry, KindVector, KindUUID, KindInet:
	}
	raw, ok := bytesOf(v)
	if !ok {
		return dst, fmt.Errorf("column %s: a value of type %T", c.Name, v)
	}
	return c.appendBytes(dst, raw, live)
}

// appendBytes writes a value that came as bytes.
func (c *Column) appendBytes(dst, raw []byte, live bool) ([]byte, error) {
	switch k := c.Kind; {
	case k == KindDecimal, !live && (k == KindUUID || k == KindInet):
		return event.AppendQuoted(dst, string(raw)), nil
	case k == KindUUID || k == KindInet:
		return c.appendAddress(dst, raw)
	case k == KindDate || k == KindDatetime || k == KindTimestamp || k == KindTime:
		return c.appendTime(dst, string(raw)), nil
	case k == KindText || k == KindEnum || k == KindSet:
		text, err := c.Charset.Text(raw)
		if err != nil {
			return dst, fmt.Errorf("column %s: %w", c.Name, err)
		}
		return event.AppendQuoted(dst, string(text)), nil
	case k == KindBinary:
		return appendBase64(dst, raw, c.Width), nil
	case k == KindJSON:
		return c.appendJSON(dst, raw)
	case k == KindGeometry && len(raw) >= 4:
		dst = strconv.AppendUint(append(dst, `{"srid":`...), uint64(binary.LittleEndian.Uint32(raw)), 10)
		return append(appendBase64(append(dst, `,"wkb":`...), raw[4:], 0), '}'), nil
	case k == KindGeometry:
		return append(dst, "null"...), nil
	case k == KindVector:
		return appendVector(dst, raw), nil
	}
	return dst, fmt.Errorf("column %s: its type is not supported", c.Name)
}

// bytesOf returns text, however it came.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case string:
		return []byte(v), true
	}
	return nil, false
}

// appendInt writes an integer. Where the binlog does not say that a column is
// unsigned, its values come signed.
func (c *Column) appendInt(dst []byte, v any) ([]byte, error) {
	var n int64
	width := 64
	switch v := v.(type) {
	case int8:
		n, width = int64(v), 8
	case int16:
		n, width = int64(v), 16
	case int32:
		n, width = int64(v), 32
		if c.DataType == "mediumint" {
			width = 24
		}
	case int64:
		n = v
	case int:
		n = int64(v)
	case uint8:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint16:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint32:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case []byte:
		return append(dst, v...), nil
	default:
		return dst, fmt.Errorf("column %s: a value of type %T", c.Name, v)
	}
	if c.Unsigned && n < 0 {
		return strconv.AppendUint(dst, uint64(n)&(math.MaxUint64>>(64-width)), 10), nil //nolint:gosec // the same bits
	}
	return strconv.AppendInt(dst, n, 10), nil
}

// appendFloat writes the shortest number that reads back as the same.
func appendFloat(dst []byte, f float64, bits int) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits)
}

func (c *Column) appendBit(dst []byte, v any) ([]byte, error) {
	var n uint64
	switch v := v.(type) {
	case int64:
		n = uint64(v) //nolint:gosec // the same bits
	case []byte:
		for _, b := range v {
			n = n<<8 | uint64(b)
		}
	default:
		return dst, fmt.Errorf("column %s: a value of type %T", c.Name, v)
	}
	if c.Width <= numberBits {
		return strconv.AppendUint(dst, n, 10), nil
	}
	var all [8]byte
	binary.BigEndian.PutUint64(all[:], n)
	return appendBase64(dst, all[8-(c.Width+7)/8:], 0), nil
}

// appendListed writes the text of an enum's index or a set's bits.
func (c *Column) appendListed(dst []byte, n uint64) ([]byte, error) {
	if c.Kind == KindEnum {
		switch {
		case n == 0: // what an invalid value became
			return append(dst, `""`...), nil
		case n > uint64(len(c.Values)):
			return dst, fmt.Errorf("column %s: value %d of an enum of %d", c.Name, n, len(c.Values))
		}
		return event.AppendQuoted(dst, c.Values[n-1]), nil
	}
	var chosen []string
	for i, value := range c.Values {
		if n&(1<<i) != 0 {
			chosen = append(chosen, value)
			n &^= 1 << i
		}
	}
	if n != 0 {
		return dst, fmt.Errorf("column %s: value %#x of a set of %d", c.Name, n, len(c.Values))
	}
	return event.AppendQuoted(dst, strings.Join(chosen, ",")), nil
}

// appendTime writes a date or time with as many digits of the second's fraction as
// the column has. Dates with a zero month or day are none.
func (c *Column) appendTime(dst []byte, s string) []byte {
	if c.Kind != KindTime && (len(s) < 10 || s[5:7] == "00" || s[8:10] == "00") {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	if c.Kind == KindDate {
		return append(append(dst, s[:10]...), '"')
	}
	if c.Kind != KindTime {
		dst = append(append(dst, s[:10]...), 'T')
		s = s[11:]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	dst = append(dst, whole...)
	if c.Decimals > 0 {
		dst = append(dst, '.')
		for i := range c.Decimals {
			if i < len(fraction) {
				dst = append(dst, fraction[i])
			} else {
				dst = append(dst, '0')
			}
		}
	}
	if c.Kind == KindTimestamp {
		dst = append(dst, 'Z')
	}
	return append(dst, '"')
}

// appendBase64 writes bytes; the binlog leaves out the zeros at the end of a
// BINARY(width).
func appendBase64(dst, raw []byte, width int) []byte {
	if len(raw) < width {
		raw = append(slices.Clone(raw), make([]byte, width-len(raw))...)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, raw)
	return append(dst, '"')
}

// appendJSON writes a document as it is, without the space between its parts.
// What is none (MariaDB may hold such where its check is off) becomes a string.
func (c *Column) appendJSON(dst, raw []byte) ([]byte, error) {
	text := raw
	if c.Charset != nil {
		decoded, err := c.Charset.Text(raw)
		if err != nil {
			return dst, fmt.Errorf("column %s: %w", c.Name, err)
		}
		text = decoded
	}
	if len(text) == 0 {
		return append(dst, "null"...), nil
	}
	if event.CheckJSON(text) == nil {
		return compactJSON(dst, text), nil
	}
	return event.AppendQuoted(dst, string(text)), nil
}

func compactJSON(dst, text []byte) []byte {
	inString := false
	for i := 0; i < len(text); i++ {
		b := text[i]
		switch {
		case inString && b == '\\':
			dst = append(dst, b, text[i+1])
			i++
			continue
		case b == '"':
			inString = !inString
		case !inString && (b == ' ' || b == '\t' || b == '\n' || b == '\r'):
			continue
		}
		dst = append(dst, b)
	}
	return dst
}

func appendVector(dst, raw []byte) []byte {
	dst = append(dst, '[')
	for i := 0; i+4 <= len(raw); i += 4 {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[i:])))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			dst = append(dst, "null"...)
			continue
		}
		dst = appendFloat(dst, f, 32)
	}
	return append(dst, ']')
}

// appendAddress writes what MariaDB stores as bytes and shows as text.
func (c *Column) appendAddress(dst, raw []byte) ([]byte, error) {
	full := append(slices.Clone(raw), make([]byte, max(0, c.Width-len(raw)))...)
	if c.Kind == KindUUID {
		return appendUUID(dst, full)
	}
	addr, ok := netip.AddrFromSlice(full)
	if !ok {
		return dst, fmt.Errorf("column %s: an address of %d bytes", c.Name, len(full))
	}
	return event.AppendQuoted(dst, addr.String()), nil
}

// appendUUID writes a UUID. Where the binlog holds it in the order of MariaDB's
// indexes, node first, that is undone: such bytes are no valid UUID as they stand.
func appendUUID(dst, b []byte) ([]byte, error) {
	if len(b) != 16 {
		return dst, fmt.Errorf("a uuid of %d bytes", len(b))
	}
	u := slices.Clone(b)
	if swapped := b[6]&0x80 != 0 && b[8] > 0 && b[8] < 0x60; swapped {
		u = slices.Concat(b[12:16], b[10:12], b[8:10], b[6:8], b[0:6])
	}
	return fmt.Appendf(dst, `"%x-%x-%x-%x-%x"`, u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
}
