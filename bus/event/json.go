package event

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

// ContentTypeJSON and ContentTypeBatch are the media types of one structured
// event and of an array of them.
const (
	ContentTypeJSON  = "application/cloudevents+json"
	ContentTypeBatch = "application/cloudevents-batch+json"
)

// AppendJSON appends e in the CloudEvents 1.0 JSON format, on one line. Data
// goes out as it is when the content type is JSON (line ends between its tokens
// become spaces; it is trusted to be valid), as a string when it is text or XML
// in valid UTF-8, else as data_base64. A tombstone has neither. Invalid UTF-8 in
// an attribute becomes U+FFFD; a time outside the years 0 to 9999, which RFC
// 3339 cannot say, is left out.
func AppendJSON(dst []byte, e *Event) []byte {
	dst = appendCore(dst, e)
	for i := range e.Ext {
		dst = appendAttr(dst, &e.Ext[i])
	}
	return appendData(dst, e)
}

// AppendRecordJSON appends r as AppendJSON does, with the extensions mrqueue and
// mroffset (strings), and mrattempt when it is above 0.
func AppendRecordJSON(dst []byte, r *Record) []byte {
	dst = appendCore(dst, &r.Event)
	for i := range r.Ext {
		switch r.Ext[i].Name {
		case ExtQueue, ExtOffset, ExtAttempt:
			continue
		}
		dst = appendAttr(dst, &r.Ext[i])
	}
	dst = append(dst, `,"`+ExtQueue+`":"`...)
	dst = strconv.AppendInt(dst, int64(r.Queue), 10)
	dst = append(dst, `","`+ExtOffset+`":"`...)
	dst = strconv.AppendInt(dst, r.Offset, 10)
	dst = append(dst, '"')
	if r.Attempt > 0 {
		dst = append(dst, `,"`+ExtAttempt+`":`...)
		dst = strconv.AppendInt(dst, int64(r.Attempt), 10)
	}
	return appendData(dst, &r.Event)
}

func appendCore(dst []byte, e *Event) []byte {
	dst = append(dst, `{"specversion":"1.0","id":`...)
	dst = AppendQuoted(dst, e.ID)
	dst = append(dst, `,"source":`...)
	dst = AppendQuoted(dst, e.Source)
	dst = append(dst, `,"type":`...)
	dst = AppendQuoted(dst, e.Type)
	if e.ContentType != "" {
		dst = append(dst, `,"datacontenttype":`...)
		dst = AppendQuoted(dst, e.ContentType)
	}
	if e.Schema != "" {
		dst = append(dst, `,"dataschema":`...)
		dst = AppendQuoted(dst, e.Schema)
	}
	if e.Subject != "" {
		dst = append(dst, `,"subject":`...)
		dst = AppendQuoted(dst, e.Subject)
	}
	if !e.Time.IsZero() {
		if t := e.Time.UTC(); timeFits(t) {
			dst = append(dst, `,"time":"`...)
			dst = t.AppendFormat(dst, time.RFC3339Nano)
			dst = append(dst, '"')
		}
	}
	if e.Key != "" {
		dst = append(dst, `,"partitionkey":`...)
		dst = AppendQuoted(dst, e.Key)
	}
	return dst
}

// timeFits reports whether RFC 3339 has four digits for the year of t (in UTC).
func timeFits(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9999 }

func appendAttr(dst []byte, a *Attr) []byte {
	dst = append(dst, ',')
	dst = AppendQuoted(dst, a.Name)
	dst = append(dst, ':')
	if a.Kind == Bool && (a.Value == "true" || a.Value == "false") ||
		a.Kind == Int && isInteger(a.Value) {
		return append(dst, a.Value...)
	}
	return AppendQuoted(dst, a.Value)
}

// isInteger reports whether s is an integer as JSON writes it.
func isInteger(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if s == "" || s[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func appendData(dst []byte, e *Event) []byte {
	switch {
	case e.Data == nil:
	case len(e.Data) > 0 && IsJSON(e.ContentType):
		dst = append(dst, `,"data":`...)
		dst = appendOneLine(dst, e.Data)
	case isText(e.ContentType) && utf8.Valid(e.Data):
		dst = append(dst, `,"data":`...)
		dst = AppendQuoted(dst, unsafe.String(unsafe.SliceData(e.Data), len(e.Data)))
	default:
		dst = append(dst, `,"data_base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, e.Data)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendOneLine appends JSON with its line ends, which valid JSON has between
// tokens only, turned into spaces: a structured event is always one line.
func appendOneLine(dst, json []byte) []byte {
	at := len(dst)
	dst = append(dst, json...)
	for _, end := range []byte{'\n', '\r'} {
		for i := at; ; i++ {
			n := bytes.IndexByte(dst[i:], end)
			if n < 0 {
				break
			}
			i += n
			dst[i] = ' '
		}
	}
	return dst
}

// isText reports whether a media type holds text that a JSON string can carry:
// text/* or XML.
func isText(contentType string) bool {
	mt := mediaType(contentType)
	return hasFoldPrefix(mt, "text/") && !hasFoldSuffix(mt, "/json") ||
		hasFoldSuffix(mt, "/xml") || hasFoldSuffix(mt, "+xml")
}

const hexDigits = "0123456789abcdef"

// AppendQuoted appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
		} else {
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
