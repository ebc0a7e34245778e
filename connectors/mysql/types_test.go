package mysql

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// typeCases are columns with values, and what they become.
var typeCases = []struct{ typ, value, want string }{
	{"TINYINT", "-128", "-128"},
	{"TINYINT UNSIGNED", "255", "255"},
	{"BOOLEAN", "TRUE", "1"},
	{"SMALLINT", "-32768", "-32768"},
	{"SMALLINT UNSIGNED", "65535", "65535"},
	{"MEDIUMINT", "-8388608", "-8388608"},
	{"MEDIUMINT UNSIGNED", "16777215", "16777215"},
	{"INT", "-2147483648", "-2147483648"},
	{"INT UNSIGNED", "4294967295", "4294967295"},
	{"INT(5) ZEROFILL", "42", "42"},
	{"BIGINT", "-9223372036854775808", "-9223372036854775808"},
	{"BIGINT UNSIGNED", "18446744073709551615", `"18446744073709551615"`},
	{"BIGINT UNSIGNED", "7", `"7"`},
	{"FLOAT", "3.14159274", "3.1415927"},
	{"FLOAT(7,3)", "1.1", "1.1"},
	{"FLOAT", "1e-30", "1e-30"},
	{"DOUBLE", "-1.7976931348623157e308", "-1.7976931348623157e+308"},
	{"DOUBLE", "0.1", "0.1"},
	{"DOUBLE", "1e15", "1000000000000000"},
	{"DECIMAL(65,30)", "-12345678901234567890123456789012345.123456789012345678901234567890", `"-12345678901234567890123456789012345.123456789012345678901234567890"`},
	{"DECIMAL(10,2)", "-0.00", `"0.00"`},
	{"DECIMAL(10,3)", "1.5", `"1.500"`},
	{"DECIMAL(5,5)", "0.00012", `"0.00012"`},
	{"DECIMAL(20,0)", "-99999999999999999999", `"-99999999999999999999"`},
	{"DATE", "'2024-02-29'", `"2024-02-29"`},
	{"DATE", "'0000-00-00'", "null"},
	{"DATE", "'2024-00-10'", "null"},
	{"DATE", "'9999-12-31'", `"9999-12-31"`},
	{"DATETIME", "'2024-02-29 23:59:59'", `"2024-02-29T23:59:59"`},
	{"DATETIME(1)", "'2024-02-29 23:59:59.5'", `"2024-02-29T23:59:59.5"`},
	{"DATETIME(3)", "'2024-02-29 23:59:59'", `"2024-02-29T23:59:59.000"`},
	{"DATETIME(6)", "'2024-02-29 23:59:59.999999'", `"2024-02-29T23:59:59.999999"`},
	{"DATETIME", "'0000-00-00 00:00:00'", "null"},
	{"DATETIME(4)", "'0000-00-00 00:00:00'", "null"},
	{"TIMESTAMP NULL", "'2024-03-01 07:59:59'", `"2024-02-29T23:59:59Z"`},
	{"TIMESTAMP(6) NULL", "'2024-03-01 07:59:59.000001'", `"2024-02-29T23:59:59.000001Z"`},
	{"TIMESTAMP(2) NULL", "'1970-01-01 08:00:01.25'", `"1970-01-01T00:00:01.25Z"`},
	{"TIMESTAMP NULL", "'0000-00-00 00:00:00'", "null"},
	{"TIME", "'-838:59:59'", `"-838:59:59"`},
	{"TIME", "'00:00:00'", `"00:00:00"`},
	{"TIME(3)", "'00:00:00'", `"00:00:00.000"`},
	{"TIME(3)", "'12:00:00'", `"12:00:00.000"`},
	{"TIME(2)", "'-00:00:00.01'", `"-00:00:00.01"`},
	{"TIME(6)", "'-838:59:58.999999'", `"-838:59:58.999999"`},
	{"TIME(6)", "'100:01:02.5'", `"100:01:02.500000"`},
	{"YEAR", "2155", "2155"},
	{"YEAR", "0", "0"},
	{"BIT(1)", "b'1'", "1"},
	{"BIT(10)", "b'1000000001'", "513"},
	{"BIT(53)", "0x1FFFFFFFFFFFFF", "9007199254740991"},
	{"BIT(54)", "1", `"AAAAAAAAAQ=="`},
	{"BIT(64)", "0x8000000000000001", `"gAAAAAAAAAE="`},
	{"ENUM('a','b''c','ü','x,y')", "'b''c'", `"b'c"`},
	{"ENUM('a','b''c','ü','x,y')", "'ü'", `"ü"`},
	{"ENUM('a','b') CHARACTER SET latin1", "''", `""`},
	{`ENUM('back\\slash','new\nline')`, `'back\\slash'`, `"back\\slash"`},
	{`ENUM('back\\slash','new\nline')`, `'new\nline'`, `"new\nline"`},
	{"ENUM('ä','ö') CHARACTER SET latin1", "'ö'", `"ö"`},
	{"SET('a','b','c')", "'a,c'", `"a,c"`},
	{"SET('a','b','c')", "''", `""`},
	{"SET('丁','文') CHARACTER SET gbk", "''", `""`},
	{"SET('中','文') CHARACTER SET gbk", "'中,文'", `"中,文"`},
	{manySet(), "'m1,m64'", `"m1,m64"`},
	{"JSON", `'{"b": 1.0, "a": [1, 2.50, -0.0, 1e3, 9223372036854775808], "ü": "a b\\"c"}'`, `{"b":1.0,"a":[1,2.50,-0.0,1e3,9223372036854775808],"ü":"a b\"c"}`},
	{"JSON", `'null'`, `null`},
	{"JSON", `'"text"'`, `"text"`},
	{"CHAR(10)", "'a  '", `"a"`},
	{"CHAR(100) CHARACTER SET utf8mb4", "'😀é'", `"😀é"`},
	{"VARCHAR(10)", "'a  '", `"a  "`},
	{"VARCHAR(300)", "'tab\\t\"quote\"'", `"tab\t\"quote\""`},
	{"VARCHAR(20)", "'😀'", `"😀"`},
	{"VARCHAR(20) CHARACTER SET latin1", "'Zürich €'", `"Zürich €"`},
	{"VARCHAR(20) CHARACTER SET latin1", "_latin1 0x8180", "\"\u0081€\""},
	{"VARCHAR(20) CHARACTER SET latin2", "'Łódź'", `"Łódź"`},
	{"VARCHAR(20) CHARACTER SET cp1251", "'Привет'", `"Привет"`},
	{"VARCHAR(20) CHARACTER SET greek", "'Ελλάς'", `"Ελλάς"`},
	{"VARCHAR(20) CHARACTER SET gbk", "'中文字符'", `"中文字符"`},
	{"VARCHAR(20) CHARACTER SET gb2312", "'中文'", `"中文"`},
	{"VARCHAR(20) CHARACTER SET big5", "'中文'", `"中文"`},
	{"VARCHAR(20) CHARACTER SET sjis", "'日本語ｶﾅ'", `"日本語ｶﾅ"`},
	{"VARCHAR(20) CHARACTER SET cp932", "'日本①'", `"日本①"`},
	{"VARCHAR(20) CHARACTER SET ujis", "'日本語'", `"日本語"`},
	{"VARCHAR(20) CHARACTER SET eucjpms", "'日本語'", `"日本語"`},
	{"VARCHAR(20) CHARACTER SET euckr", "'한국어'", `"한국어"`},
	{"VARCHAR(20) CHARACTER SET ucs2", "'中é'", `"中é"`},
	{"CHAR(20) CHARACTER SET utf16", "'😀 '", `"😀"`},
	{"VARCHAR(20) CHARACTER SET utf16le", "'😀'", `"😀"`},
	{"VARCHAR(20) CHARACTER SET utf32", "'😀'", `"😀"`},
	{"VARCHAR(20) CHARACTER SET utf8mb3", "'é中'", `"é中"`},
	{"VARCHAR(20) CHARACTER SET utf8mb4 COLLATE uca1400_ai_ci", "'é中'", `"é中"`},
	{"TINYTEXT", "'x'", `"x"`},
	{"TEXT CHARACTER SET latin1", "'ß'", `"ß"`},
	{"MEDIUMTEXT CHARACTER SET gbk", "'丂'", `"丂"`},
	{"LONGTEXT", "'{\"not\": \"json\"}'", `"{\"not\": \"json\"}"`},
	{"BINARY(4)", "0x61000000", `"YQAAAA=="`},
	{"BINARY(4)", "0x00000000", `"AAAAAA=="`},
	{"BINARY(16)", "0x00112233445566778899AABBCCDDEE00", `"ABEiM0RVZneImaq7zN3uAA=="`},
	{"VARBINARY(4)", "0x6100", `"YQA="`},
	{"VARCHAR(4) CHARACTER SET binary", "0xFF00", `"/wA="`},
	{"TINYBLOB", "0x00FF", `"AP8="`},
	{"BLOB", "''", `""`},
	{"LONGBLOB", "0x010203", `"AQID"`},
	{"POINT", "ST_GeomFromText('POINT(1 2)', 4326)", `{"srid":4326,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA"}`},
	{"GEOMETRY", "ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')", `{"srid":0,"wkb":"AQcAAAAAAAAA"}`},
	{"UUID", "'123e4567-e89b-12d3-a456-426655440000'", `"123e4567-e89b-12d3-a456-426655440000"`},
	{"UUID", "'0192f7a4-9d3b-7c11-8f00-aabbccddeeff'", `"0192f7a4-9d3b-7c11-8f00-aabbccddeeff"`},
	{"UUID", "'fe800000-0000-4000-8000-000000000000'", `"fe800000-0000-4000-8000-000000000000"`},
	{"UUID", "'00000000-0000-0000-0000-000000000000'", `"00000000-0000-0000-0000-000000000000"`},
	{"UUID", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", `"ffffffff-ffff-ffff-ffff-ffffffffffff"`},
	{"INET4", "'192.168.0.0'", `"192.168.0.0"`},
	{"INET6", "'2001:db8::ff00:42:8329'", `"2001:db8::ff00:42:8329"`},
	{"INET6", "'::ffff:192.168.0.1'", `"::ffff:192.168.0.1"`},
	{"INET6", "'::'", `"::"`},
	{"INT NULL", "NULL", "null"},
	{"INT GENERATED ALWAYS AS (id * 2) VIRTUAL", "", "2"},
	{"INT GENERATED ALWAYS AS (id + 1) STORED", "", "2"},
	{"INT INVISIBLE DEFAULT 5", "6", "6"},
}

func manySet() string {
	values := make([]string, 64)
	for i := range values {
		values[i] = "'m" + strconv.Itoa(i+1) + "'"
	}
	return "SET(" + strings.Join(values, ",") + ")"
}

// TestTypes fills a table with a row before the snapshot and one after it: they
// must be equal but for their keys, and what the table says.
func TestTypes(t *testing.T) {
	t.Parallel()
	for _, metadata := range []string{"FULL", "MINIMAL", "NO_LOG"} {
		t.Run(metadata, func(t *testing.T) {
			t.Parallel()
			s := start(t, "--binlog-row-metadata="+metadata)
			columns, names, values := []string{"id INT PRIMARY KEY"}, []string{"id"}, []string{""}
			for i, c := range typeCases {
				name := "`c " + strconv.Itoa(i) + "`"
				columns = append(columns, name+" "+c.typ)
				if c.value != "" {
					names, values = append(names, name), append(values, c.value)
				}
			}
			insert := func(id string) string {
				return "SET SESSION sql_mode = ''; SET NAMES utf8mb4; INSERT INTO shop.`all types` (" + strings.Join(names, ", ") + ") VALUES (" + id + strings.Join(values, ", ") + ")"
			}
			s.Exec("CREATE TABLE shop.`all types` ("+strings.Join(columns, ", ")+") ENGINE=InnoDB CHARACTER SET utf8mb4", insert("1"))
			r := read(t, s, nil)
			r.open()
			r.until(1)
			s.Exec(insert("2"))
			r.until(2)
			if topic := r.events[0].Topic; topic != "shop.shop.all_types" || r.events[1].Topic != topic {
				t.Errorf("topic %s", topic)
			}
			snap, live := gjson.ParseBytes(r.events[0].Event.Data).Get("after"), gjson.ParseBytes(r.events[1].Event.Data).Get("after")
			a, b := fields(snap), fields(live)
			for i, c := range typeCases {
				name := "c " + strconv.Itoa(i)
				if a[name] != c.want {
					t.Errorf("%s %s: the snapshot says %s, not %s", c.typ, c.value, a[name], c.want)
				}
				want := c.want
				if c.value == "" { // computed from the id
					want = map[string]string{"VIRTUAL": "4", "STORED": "3"}[c.typ[len(c.typ)-7:]]
					if want == "" {
						want = "3"
					}
				}
				if b[name] != want {
					t.Errorf("%s %s: the binlog says %s, not %s", c.typ, c.value, b[name], want)
				}
			}
			if diff := cmp.Diff(order(snap), order(live)); diff != "" {
				t.Errorf("the columns' order: %s", diff)
			}
		})
	}
}

func fields(row gjson.Result) map[string]string {
	m := map[string]string{}
	row.ForEach(func(k, v gjson.Result) bool { m[k.Str] = v.Raw; return true })
	return m
}

func order(row gjson.Result) []string {
	var names []string
	row.ForEach(func(k, _ gjson.Result) bool { names = append(names, k.Str); return true })
	return names
}
