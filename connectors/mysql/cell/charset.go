package cell

import (
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// Charset turns stored bytes into text. The zero value is UTF-8.
type Charset struct {
	Single *[256]rune        // where every byte is a character
	Multi  encoding.Encoding // where more may be
}

// Text is raw as UTF-8. The result may share raw's bytes.
func (c *Charset) Text(raw []byte) ([]byte, error) {
	switch {
	case c.Single != nil:
		out := make([]byte, 0, len(raw)+8)
		for _, b := range raw {
			out = utf8.AppendRune(out, c.Single[b])
		}
		return out, nil
	case c.Multi != nil:
		return c.Multi.NewDecoder().Bytes(raw)
	default:
		return raw, nil
	}
}

// Multibyte finds the character sets whose decoders come with the program. Those
// with one byte per character are asked from the server.
func Multibyte(name string) (encoding.Encoding, bool) {
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
