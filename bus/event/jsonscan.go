package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// ErrSyntax says that a text is not JSON; the error around it says where.
var ErrSyntax = errors.New("malformed JSON")

// maxDepth bounds how deeply JSON may nest.
const maxDepth = 1000

// CheckJSON returns nil when b is exactly one JSON value in valid UTF-8, else an
// error that wraps ErrSyntax and says at which byte it goes wrong.
func CheckJSON(b []byte) error {
	s := scanner{b: b}
	if err := s.utf8(); err != nil {
		return err
	}
	s.space()
	if err := s.skip(0); err != nil {
		return err
	}
	return s.end()
}

// Unquote decodes a JSON string, quotes included. Half of a surrogate pair becomes
// U+FFFD. The error wraps ErrSyntax.
func Unquote(b []byte) (string, error) {
	s := scanner{b: b}
	if s.peek() != '"' {
		return "", s.syntax(0, "a string is expected here")
	}
	raw, escaped, err := s.str()
	if err != nil {
		return "", err
	}
	if err := s.end(); err != nil {
		return "", err
	}
	if escaped {
		return asString(text(raw, true)), nil
	}
	return string(raw), nil
}

// scanner walks over JSON text. Its methods stop behind what they have read.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) syntax(at int, what string) error {
	if at >= len(s.b) {
		what = "the text ends too early"
	}
	return fmt.Errorf("%w at byte %d: %s", ErrSyntax, at, what)
}

// utf8 checks the whole text.
func (s *scanner) utf8() error {
	if utf8.Valid(s.b) {
		return nil
	}
	i := 0
	for {
		r, n := utf8.DecodeRune(s.b[i:])
		if r == utf8.RuneError && n == 1 {
			return s.syntax(i, "not valid UTF-8")
		}
		i += n
	}
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// end says that nothing but space may follow.
func (s *scanner) end() error {
	s.space()
	if s.i < len(s.b) {
		return s.syntax(s.i, "something follows the value")
	}
	return nil
}

// skip reads one value, which must begin here.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.syntax(s.i, fmt.Sprintf("nested deeper than %d", maxDepth))
	}
	switch c := s.peek(); c {
	case '{':
		return s.skipMembers(depth+1, '}')
	case '[':
		return s.skipMembers(depth+1, ']')
	case '"':
		_, _, err := s.str()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number()
		}
		return s.syntax(s.i, "a value is expected here")
	}
}

// skipMembers is members for what need not be looked at; without a function to
// call it is twice as fast.
func (s *scanner) skipMembers(depth int, closing byte) error {
	s.i++
	s.space()
	if s.peek() == closing {
		s.i++
		return nil
	}
	for {
		s.space()
		if closing == '}' {
			if err := s.key(); err != nil {
				return err
			}
		}
		if err := s.skip(depth); err != nil {
			return err
		}
		if done, err := s.separator(closing); done || err != nil {
			return err
		}
	}
}

// key reads a member's name and the colon behind it.
func (s *scanner) key() error {
	if s.peek() != '"' {
		return s.syntax(s.i, "a member name in double quotes is expected here")
	}
	if _, _, err := s.str(); err != nil {
		return err
	}
	return s.colon()
}

// separator reads a comma or the closing bracket, which is the end.
func (s *scanner) separator(closing byte) (done bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.i++
		return false, nil
	case closing:
		s.i++
		return true, nil
	}
	return false, s.syntax(s.i, fmt.Sprintf("',' or '%c' is expected here", closing))
}

// members reads what stands between brackets, separated by commas, calling one
// with its number at the start of each.
func (s *scanner) members(one func(n int) error, closing byte) error {
	s.i++
	s.space()
	if s.peek() == closing {
		s.i++
		return nil
	}
	for n := 0; ; n++ {
		s.space()
		if closing == '}' && s.peek() != '"' {
			return s.syntax(s.i, "a member name in double quotes is expected here")
		}
		if err := one(n); err != nil {
			return err
		}
		if done, err := s.separator(closing); done || err != nil {
			return err
		}
	}
}

func (s *scanner) colon() error {
	s.space()
	if s.peek() != ':' {
		return s.syntax(s.i, "':' is expected here")
	}
	s.i++
	s.space()
	return nil
}

func (s *scanner) literal(word string) error {
	for i := range len(word) {
		if s.i+i >= len(s.b) || s.b[s.i+i] != word[i] {
			return s.syntax(s.i+i, word+" is expected here")
		}
	}
	s.i += len(word)
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.syntax(s.i, "a digit is expected here")
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.syntax(s.i, "a digit is expected here")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.syntax(s.i, "a digit is expected here")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}

// str reads a string and returns what stands between its quotes.
func (s *scanner) str() (raw []byte, escaped bool, err error) {
	start := s.i + 1
	for i := start; ; {
		i = nextSpecial(s.b, i)
		if i >= len(s.b) {
			return nil, false, s.syntax(len(s.b), "")
		}
		switch s.b[i] {
		case '"':
			s.i = i + 1
			return s.b[start:i:i], escaped, nil
		case '\\':
			escaped = true
			if i, err = s.escape(i + 1); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, s.syntax(i, "a control character in a string must be escaped")
		}
	}
}

// escape reads what follows a backslash, at i, and returns the place behind it.
func (s *scanner) escape(i int) (int, error) {
	if i >= len(s.b) {
		return i, s.syntax(i, "")
	}
	switch s.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, nil
	case 'u':
		for end := i + 4; i < end; {
			i++
			if i >= len(s.b) || unhex(s.b[i]) < 0 {
				return i, s.syntax(i, "\\u needs four hexadecimal digits")
			}
		}
		return i + 1, nil
	}
	return i, s.syntax(i, "not an escape that JSON knows")
}

// nextSpecial returns the first place from i on with a quote, a backslash or a
// control character, or the end. It looks at eight bytes at once: a byte of the
// word that underflows when 0x20 (or, after xor, 1) is taken from it sets its
// high bit, and the lowest such bit is exact.
func nextSpecial(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		special := (w - ones*0x20) | (w ^ ones*'"' - ones) | (w ^ ones*'\\' - ones)
		if special &= highs &^ w; special != 0 {
			return i + bits.TrailingZeros64(special)>>3
		}
	}
	for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

func unhex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// text decodes what str returned. Without escapes it shares raw's memory. Half
// of a surrogate pair becomes U+FFFD.
func text(raw []byte, escaped bool) []byte {
	if !escaped {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := utf8.RuneError
				if i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
					pair = utf16.DecodeRune(r, hex4(raw[i+3:]))
				}
				if r = pair; r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default: // a quote, slash or backslash
			out = append(out, raw[i])
		}
	}
	return out
}

func hex4(b []byte) rune {
	return unhex(b[0])<<12 | unhex(b[1])<<8 | unhex(b[2])<<4 | unhex(b[3])
}

// asString views b, which nobody changes any more, as a string.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
