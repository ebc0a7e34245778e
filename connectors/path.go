package connectors

import (
	"strings"
	"unicode/utf8"
)

// FieldPath turns the path of a field in an event's data, such as items[0].sku or
// data.order.id (with or without the leading data), into the form of package
// gjson, with everything that gjson gives a meaning escaped.
func FieldPath(path string) string {
	path = strings.TrimPrefix(path, "data.")
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '[':
			end := strings.IndexByte(path[i:], ']')
			if end < 0 {
				out.WriteString(`\[`)
				continue
			}
			out.WriteString("." + path[i+1:i+end])
			i += end
		case c == '.' || c == '_' || c == '-' || c >= utf8.RuneSelf || c == ' ' ||
			c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			out.WriteByte(c)
		default:
			out.WriteByte('\\')
			out.WriteByte(c)
		}
	}
	return out.String()
}
