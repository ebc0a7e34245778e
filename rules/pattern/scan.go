package pattern

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// The scanner accepts exactly what encoding/json calls valid, so that a match
// never rests on a malformed document. Every function takes the index of its
// first byte and returns the index after its last, or -1.

// maxDepth is how deep arrays and objects may nest, as in encoding/json.
const maxDepth = 10000

type kind uint8

const (
	kindString kind = iota
	kindNumber
	kindTrue
	kindFalse
	kindNull
	kindObject
	kindArray
)

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// scanString takes the index after the opening quote and returns the index of
// the closing one. It looks at eight bytes at a time: most of an event is text.
func scanString(b []byte, i int) (end int, escaped bool) {
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			quote, slash := x^(ones*'"'), x^(ones*'\\')
			m := ((quote - ones) & ^quote) | ((slash - ones) & ^slash) | ((x - ones*' ') & ^x)
			if m &= highs; m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
			i++
		}
		if i >= len(b) || b[i] < ' ' {
			return -1, false
		}
		if b[i] == '"' {
			return i, escaped
		}
		if i = scanEscape(b, i); i < 0 {
			return -1, false
		}
		escaped = true
	}
}

func scanEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 <= len(b) && hex4(b[i+2:]) >= 0 {
			return i + 6
		}
	}
	return -1
}

func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescape appends the text of a valid JSON string; a lone surrogate becomes
// U+FFFD, as in encoding/json.
func unescape(dst, b []byte) []byte {
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			dst = append(dst, b[i])
			i++
			continue
		}
		i += 2
		switch c := b[i-1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(b[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+6 <= len(b) && b[i] == '\\' && b[i+1] == 'u' {
					pair = utf16.DecodeRune(r, hex4(b[i+2:]))
				}
				if r = pair; r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

func scanNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	j := digits(b, i)
	if j == i || b[i] == '0' && j > i+1 {
		return -1
	}
	if j < len(b) && b[j] == '.' {
		i = j + 1
		if j = digits(b, i); j == i {
			return -1
		}
	}
	if j < len(b) && (b[j] == 'e' || b[j] == 'E') {
		i = j + 1
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if j = digits(b, i); j == i {
			return -1
		}
	}
	return j
}

// scanScalar reads a number, true, false or null.
func scanScalar(b []byte, i int) (end int, k kind) {
	var word string
	switch b[i] {
	case 't':
		word, k = "true", kindTrue
	case 'f':
		word, k = "false", kindFalse
	case 'n':
		word, k = "null", kindNull
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return scanNumber(b, i), kindNumber
	default:
		return -1, 0
	}
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1, 0
	}
	return i + len(word), k
}

// skipValue passes over a value nobody asks for.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		end, _ := scanString(b, i+1)
		if end < 0 {
			return -1
		}
		return end + 1
	case '{', '[':
		return skipMembers(b, i, depth+1)
	}
	end, _ := scanScalar(b, i)
	return end
}

func skipMembers(b []byte, i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	object := b[i] == '{'
	closing := b[i] + 2 // of both
	if i = skipSpace(b, i+1); i < len(b) && b[i] == closing {
		return i + 1
	}
	for {
		if object {
			_, _, v := scanKey(b, i)
			if v < 0 {
				return -1
			}
			i = v
		}
		if i = skipValue(b, i, depth); i < 0 {
			return -1
		}
		var more bool
		if i, more = next(b, i, closing); !more {
			return i
		}
	}
}

// scanKey reads `"key" :` and returns where the key's quotes are and where the
// value begins.
func scanKey(b []byte, i int) (end int, escaped bool, value int) {
	if i >= len(b) || b[i] != '"' {
		return 0, false, -1
	}
	if end, escaped = scanString(b, i+1); end < 0 {
		return 0, false, -1
	}
	v := skipSpace(b, end+1)
	if v >= len(b) || b[v] != ':' {
		return 0, false, -1
	}
	return end, escaped, skipSpace(b, v+1)
}

// next passes the comma after a member (more is true), or the closing bracket.
func next(b []byte, i int, closing byte) (after int, more bool) {
	i = skipSpace(b, i)
	switch {
	case i >= len(b):
		return -1, false
	case b[i] == ',':
		return skipSpace(b, i+1), true
	case b[i] == closing:
		return i + 1, false
	}
	return -1, false
}
