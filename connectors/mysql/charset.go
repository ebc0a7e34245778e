package mysql

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// charset turns stored bytes into text. The zero value is UTF-8.
type charset struct {
	single *[256]rune        // where every byte is a character
	multi  encoding.Encoding // where more may be
}

// binaryCollation is the id of the one collation of binary data.
const binaryCollation = 63

// text is raw as UTF-8. The result may share raw's bytes.
func (c *charset) text(raw []byte) ([]byte, error) {
	switch {
	case c.single != nil:
		out := make([]byte, 0, len(raw)+8)
		for _, b := range raw {
			out = utf8.AppendRune(out, c.single[b])
		}
		return out, nil
	case c.multi != nil:
		return c.multi.NewDecoder().Bytes(raw)
	default:
		return raw, nil
	}
}

// multibyte are the character sets whose decoders come with the program. Those
// with one byte per character are asked from the server.
func multibyte(name string) (encoding.Encoding, bool) {
	switch name {
	case "gbk", "gb2312":
		return simplifiedchinese.GBK, true
	case "gb18030":
		return simplifiedchinese.GB18030, true
	case "big5":
		return traditionalchinese.Big5, true
	case "sjis", "cp932":
		return japanese.ShiftJIS, true
	case "ujis", "eucjpms":
		return japanese.EUCJP, true
	case "euckr":
		return korean.EUCKR, true
	case "ucs2", "utf16":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), true
	case "utf16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), true
	case "utf32":
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM), true
	case "utf8", "utf8mb3", "utf8mb4", "ascii":
		return nil, true
	}
	return nil, false
}

// charset returns the decoder of a character set.
func (s *server) charset(ctx context.Context, name string) (*charset, error) {
	if c := s.charsets[name]; c != nil {
		return c, nil
	}
	c := &charset{}
	enc, known := multibyte(name)
	if c.multi = enc; !known {
		table, err := s.singleBytes(ctx, name)
		if err != nil {
			return nil, err
		}
		c.single = table
	}
	s.charsets[name] = c
	return c, nil
}

// singleBytes asks the server what each byte of a character set means.
func (s *server) singleBytes(ctx context.Context, name string) (*[256]rune, error) {
	for i := range len(name) { // it becomes part of a query
		if b := name[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			return nil, fmt.Errorf("character set %q is not known", name)
		}
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var answer string
	if err := s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT HEX(CONVERT(_%s 0x%x USING utf32))", name, all)).Scan(&answer); err != nil {
		return nil, fmt.Errorf("character set %s: %w", name, err)
	}
	points, err := hex.DecodeString(answer)
	if err != nil || len(points) != 4*len(all) {
		return nil, fmt.Errorf("character set %s is not supported: leave the table out with table.exclude.list, or convert the column to utf8mb4", name)
	}
	table := new([256]rune)
	for i := range table {
		table[i] = rune(binary.BigEndian.Uint32(points[4*i:])) //nolint:gosec // a code point
	}
	return table, nil
}

// collation returns the decoder for a collation's id; nil is binary.
func (s *server) collation(ctx context.Context, id uint64) (*charset, error) {
	if id == binaryCollation {
		return nil, nil //nolint:nilnil // binary data has no characters
	}
	if s.collations == nil {
		names, err := s.loadCollations(ctx)
		if err != nil {
			return nil, fmt.Errorf("collations: %w", err)
		}
		s.collations = names
	}
	name, ok := s.collations[id]
	if !ok {
		return nil, fmt.Errorf("the server knows no collation %d", id)
	}
	return s.charset(ctx, name)
}

func (s *server) loadCollations(ctx context.Context) (map[uint64]string, error) {
	names := map[uint64]string{}
	queries := []string{"SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL AND CHARACTER_SET_NAME IS NOT NULL"}
	if s.mariadb && s.atLeast(10, 10) { // collations that many character sets share
		queries = append(queries, "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL")
	}
	for _, q := range queries {
		if err := s.each(ctx, q, nil, func(scan func(...any) error) error {
			var id uint64
			var name string
			if err := scan(&id, &name); err != nil {
				return err
			}
			names[id] = name
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return names, nil
}
