package event

import (
	"fmt"
	"strconv"
	"time"

	"pgregory.net/rapid"
)

// anyEvent makes events that pass Validate. With portable set, they hold only
// what every CloudEvents implementation takes the same way: absolute sources, no
// control characters, times in this era, no empty extension values.
func anyEvent(portable bool) *rapid.Generator[Event] {
	str := rapid.String()
	nonEmpty := rapid.StringN(1, 20, -1)
	if portable {
		nonEmpty = rapid.StringMatching(`[a-zA-Z0-9é世"\\/<>&][a-zA-Z0-9é世 "\\/<>&]{0,20}`)
		str = rapid.OneOf(rapid.Just(""), nonEmpty)
	}
	source := nonEmpty
	if portable {
		source = rapid.StringMatching(`(https://example\.com/|/|urn:x:)[a-z0-9]{1,10}(/[a-z0-9]{1,5})?`)
	}
	return rapid.Custom(func(t *rapid.T) Event {
		e := Event{
			ID:      nonEmpty.Draw(t, "id"),
			Source:  source.Draw(t, "source"),
			Type:    nonEmpty.Draw(t, "type"),
			Subject: str.Draw(t, "subject"),
			Key:     str.Draw(t, "key"),
			Schema:  rapid.SampledFrom([]string{"", "https://example.com/schema/1", "urn:schema"}).Draw(t, "schema"),
		}
		if rapid.Bool().Draw(t, "timed") {
			e.Time = time.Unix(rapid.Int64Range(-62135596799, 253402300799).Draw(t, "sec"), rapid.Int64Range(0, 999999999).Draw(t, "nsec")).UTC()
		}
		n := rapid.IntRange(0, 4).Draw(t, "exts")
		for i := range n {
			a := Attr{Name: fmt.Sprintf("x%d%s", i, rapid.StringMatching(`[a-z0-9]{0,6}`).Draw(t, "name"))}
			switch a.Kind = rapid.SampledFrom([]Kind{String, Bool, Int}).Draw(t, "kind"); a.Kind {
			case String:
				a.Value = str.Draw(t, "value")
				if portable {
					a.Value = nonEmpty.Draw(t, "value")
				}
			case Bool:
				a.Value = strconv.FormatBool(rapid.Bool().Draw(t, "value"))
			case Int:
				a.Value = strconv.Itoa(int(rapid.Int32().Draw(t, "value")))
			}
			e.Ext = append(e.Ext, a)
		}
		switch rapid.IntRange(0, 5).Draw(t, "content") {
		case 0: // a tombstone
			e.ContentType = rapid.SampledFrom([]string{"", "application/json", "text/plain"}).Draw(t, "ct")
		case 1, 2:
			types := []string{"", "application/json", "text/json", "application/vnd.x+json", "text/json; charset=utf-8", "Application/JSON"}
			if portable {
				types = types[:3] // those that the SDK knows to be JSON
			}
			e.ContentType = rapid.SampledFrom(types).Draw(t, "ct")
			e.Data = []byte(anyJSON().Draw(t, "data"))
		case 3:
			e.ContentType = rapid.SampledFrom([]string{"text/plain", "text/csv; header=present", "application/xml", "image/svg+xml"}).Draw(t, "ct")
			e.Data = []byte(rapid.String().Draw(t, "data"))
		default:
			e.ContentType = rapid.SampledFrom([]string{"application/octet-stream", "text/plain", "image/png", "text"}).Draw(t, "ct")
			e.Data = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
			if e.Data == nil {
				e.Data = []byte{}
			}
		}
		return e
	})
}

// anyJSON makes JSON texts, on one line.
func anyJSON() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string { return string(drawJSON(t, nil, 0)) })
}

func drawJSON(t *rapid.T, dst []byte, depth int) []byte {
	kinds := 7
	if depth > 3 {
		kinds = 5
	}
	pad := func() { dst = append(dst, rapid.SampledFrom([]string{"", "", "", " ", "\t "}).Draw(t, "space")...) }
	switch rapid.IntRange(0, kinds-1).Draw(t, "json") {
	case 0:
		return append(dst, "null"...)
	case 1:
		return append(dst, rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")...)
	case 2:
		return append(dst, rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")...)
	case 3:
		return AppendQuoted(dst, rapid.String().Draw(t, "string"))
	case 4:
		return append(dst, rapid.SampledFrom([]string{`"\u00e9\ud83d\ude00\/"`, `"a.b"`, `"\ud800"`, `""`}).Draw(t, "escaped")...)
	case 5:
		dst = append(dst, '[')
		pad()
		n := rapid.IntRange(0, 3).Draw(t, "len")
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
				pad()
			}
			dst = drawJSON(t, dst, depth+1)
			pad()
		}
		return append(dst, ']')
	default:
		dst = append(dst, '{')
		pad()
		n := rapid.IntRange(0, 3).Draw(t, "len")
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
				pad()
			}
			dst = AppendQuoted(dst, fmt.Sprint(rapid.String().Draw(t, "key"), i))
			pad()
			dst = append(dst, ':')
			pad()
			dst = drawJSON(t, dst, depth+1)
			pad()
		}
		return append(dst, '}')
	}
}
