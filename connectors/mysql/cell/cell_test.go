package cell

import (
	"encoding/json"
	"testing"

	"millrace/bus/event"
)

// FuzzJSON appends documents of any form: what is JSON keeps its meaning, what is
// none becomes a string.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.50] , "b":" x \" \\ "}`, `1e400`, "\"\\u00e9 \\", "", "\xff", `[1,]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Column{Name: "j", Kind: KindJSON}
		got, err := c.Append(nil, []byte(text), true)
		if err != nil || event.CheckJSON(got) != nil {
			t.Fatalf("%q: %s, %v", text, got, err)
		}
		var was, is any
		if json.Unmarshal([]byte(text), &was) != nil {
			return
		}
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatalf("%q: %s: %v", text, got, err)
		}
		a, _ := json.Marshal(was)
		b, _ := json.Marshal(is)
		if string(a) != string(b) && event.CheckJSON([]byte(text)) == nil {
			t.Errorf("%q: %s", a, b)
		}
	})
}

// TestAppend are cases that no server of the tests has.
func TestAppend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column Column
		value  any
		want   string
	}{
		{Column{Kind: KindVector}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f}, "[1,null]"},
		{Column{Kind: KindInt, Unsigned: true, DataType: "mediumint"}, int32(-1), "16777215"},
		{Column{Kind: KindInt, Unsigned: true}, int8(-1), "255"},
		{Column{Kind: KindUint64, Unsigned: true}, int64(-1), `"18446744073709551615"`},
		{Column{Kind: KindSet, Values: []string{"a"}}, int64(2), ""},
		{Column{Kind: KindEnum, Values: []string{"a"}}, int64(2), ""},
		{Column{Kind: KindInt}, 1.5, ""},
		{Column{Kind: KindUnknown}, "x", ""},
		{Column{Kind: KindGeometry}, []byte{1}, "null"},
		{Column{Kind: KindUUID, Width: 16}, []byte{0x42, 0x66, 0x55, 0x44, 0, 0, 0xa4, 0x56, 0x12, 0xd3, 0xe8, 0x9b, 0x12, 0x3e, 0x45, 0x67}, `"123e4567-e89b-12d3-a456-426655440000"`},
	} {
		got, err := c.column.Append(nil, c.value, true)
		if err == nil != (c.want != "") || err == nil && string(got) != c.want {
			t.Errorf("%+v %v: %s, %v", c.column, c.value, got, err)
		}
	}
}
