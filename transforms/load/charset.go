package load

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"
	uni "golang.org/x/text/encoding/unicode"
)

// binary refuses what is no text in any encoding.
func binary(data []byte) error {
	for _, m := range []struct{ magic, name string }{
		{"%PDF-", "PDF"},
		{"PK\x03\x04", "zip, docx, xlsx or pptx"},
		{"\xd0\xcf\x11\xe0", "an old Office file"},
		{"\x1f\x8b", "gzip"},
		{"\x89PNG", "PNG"},
		{"\xff\xd8\xff", "JPEG"},
		{"GIF8", "GIF"},
		{"\x7fELF", "a program"},
	} {
		if bytes.HasPrefix(data, []byte(m.magic)) {
			return fmt.Errorf("%w: it is %s: turn it into text, Markdown, HTML, JSON or CSV first", ErrUnsupported, m.name)
		}
	}
	return nil
}

// decode makes UTF-8 of data: by its byte order mark, the named charset, as the
// UTF-8 that it is, by a page's meta element, else as GB 18030 where that gives
// Chinese, else as Windows-1252. It never replaces a byte silently.
func decode(data []byte, name string, page bool) (string, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		data, name = data[3:], "utf-8"
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		return with(uni.UTF16(uni.LittleEndian, uni.UseBOM), "UTF-16", data)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		return with(uni.UTF16(uni.BigEndian, uni.UseBOM), "UTF-16", data)
	}
	if name != "" && !strings.EqualFold(name, "utf-8") && !strings.EqualFold(name, "us-ascii") {
		e, label := charset.Lookup(name)
		if e == nil {
			return "", fmt.Errorf("%w: the charset %q is not known", ErrEncoding, name)
		}
		return with(e, label, data)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return "", fmt.Errorf("%w: it has zero bytes", ErrEncoding)
	}
	if utf8.Valid(data) {
		return string(data), nil
	}
	if page {
		// Windows-1252 is also what it says of a page without a meta element.
		if e, label, _ := charset.DetermineEncoding(data[:min(len(data), 1024)], ""); label != "windows-1252" {
			return with(e, label, data)
		}
	}
	if text, err := with(simplifiedchinese.GB18030, "GB 18030", data); err == nil && chinese(text) {
		return text, nil
	}
	return with(charmap.Windows1252, "Windows-1252", data)
}

func with(e encoding.Encoding, name string, data []byte) (string, error) {
	out, err := e.NewDecoder().Bytes(data)
	if err != nil {
		return "", fmt.Errorf("%w: as %s: %w", ErrEncoding, name, err)
	}
	text := string(out)
	if strings.ContainsRune(text, utf8.RuneError) || strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("%w: it is not %s", ErrEncoding, name)
	}
	return text, nil
}

// chinese reports whether most of a text's other characters than ASCII are common
// Chinese ones. Western text read as GB 18030 gives rare ones.
func chinese(text string) bool {
	common, other := 0, 0
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
		case r >= 0x4e00 && r <= 0x9fff || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef || unicode.IsPunct(r):
			common++
		default:
			other++
		}
	}
	return common > 9*other && common >= 2
}
