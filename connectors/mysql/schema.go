package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"millrace/bus/event"
)

// table is what is known of a table at one time.
type table struct {
	db, name string
	columns  []column
	key      []int // the primary key's columns, in its order; empty: none
}

// full is the table's name in filters and positions.
func (t *table) full() string { return t.db + "." + t.name }

// integer is the column that is the whole primary key and an integer; -1 where
// the key is otherwise.
func (t *table) integer() int {
	if len(t.key) == 1 {
		if k := t.columns[t.key[0]].kind; k == kindInt || k == kindUint64 {
			return t.key[0]
		}
	}
	return -1
}

// kind is how a column's values are written.
type kind uint8

const (
	kindUnknown kind = iota
	kindInt          // numbers of up to 64 bits, but unsigned 64
	kindUint64       // as text
	kindFloat
	kindDouble
	kindDecimal
	kindDate
	kindDatetime
	kindTimestamp
	kindTime
	kindYear
	kindBit
	kindEnum
	kindSet
	kindText
	kindBinary
	kindJSON
	kindGeometry
	kindVector
	kindUUID
	kindInet
)

// column is one column of a table.
type column struct {
	name     string
	label    []byte // "name": as JSON
	kind     kind
	dataType string // as the server calls it; empty where only the binlog was asked
	unsigned bool
	charset  *charset // of text, enum and set
	values   []string // of enum and set
	width    int      // of BINARY in bytes (0 = not padded), of BIT in bits
	decimals int      // of times: digits of a second's fraction
}

func (c *column) named(name string) {
	c.name = name
	c.label = append(event.AppendQuoted(nil, name), ':')
}

// kindOf is how values of a type that information_schema names are written;
// an unsigned bigint's are text besides.
func kindOf(dataType string) kind {
	switch dataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return kindInt
	case "float":
		return kindFloat
	case "double":
		return kindDouble
	case "decimal":
		return kindDecimal
	case "date":
		return kindDate
	case "datetime":
		return kindDatetime
	case "timestamp":
		return kindTimestamp
	case "time":
		return kindTime
	case "year":
		return kindYear
	case "bit":
		return kindBit
	case "enum":
		return kindEnum
	case "set":
		return kindSet
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return kindText
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return kindBinary
	case "json":
		return kindJSON
	case "vector":
		return kindVector
	case "uuid":
		return kindUUID
	case "inet4", "inet6":
		return kindInet
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return kindGeometry
	}
	return kindUnknown
}

// tables lists the captured tables, by name.
func (s *server) tables(ctx context.Context, f *filter) ([]*table, error) {
	var all []*table
	err := s.each(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')", nil,
		func(scan func(...any) error) error {
			t := &table{}
			if err := scan(&t.db, &t.name); err != nil {
				return err
			}
			if f.captures(t.db, t.name) {
				all = append(all, t)
			}
			return nil
		})
	slices.SortFunc(all, func(a, b *table) int { return strings.Compare(a.full(), b.full()) })
	return all, err
}

// load fills in a table's columns and key as they are now. A table that is not
// there has no columns then.
func (s *server) load(ctx context.Context, t *table) error {
	t.columns, t.key = nil, nil
	err := s.each(ctx, `SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, CHARACTER_OCTET_LENGTH, NUMERIC_PRECISION, DATETIME_PRECISION
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, []any{t.db, t.name},
		func(scan func(...any) error) error {
			var name, dataType, columnType string
			var charset sql.NullString
			var octets, precision, fraction sql.NullInt64
			if err := scan(&name, &dataType, &columnType, &charset, &octets, &precision, &fraction); err != nil {
				return err
			}
			c := column{dataType: dataType, kind: kindOf(dataType), unsigned: strings.Contains(columnType, "unsigned"), decimals: int(fraction.Int64)}
			c.named(name)
			switch {
			case strings.Contains(columnType, " COMPRESSED"): // MariaDB's; the binlog has another form
				c.kind = kindUnknown
			case dataType == "bigint" && c.unsigned:
				c.kind = kindUint64
			case dataType == "binary":
				c.width = int(octets.Int64)
			case c.kind == kindBit:
				c.width = int(precision.Int64)
			case c.kind == kindEnum || c.kind == kindSet:
				c.values = listed(columnType)
			}
			if charset.Valid && c.kind != kindJSON {
				dec, err := s.charset(ctx, charset.String)
				if err != nil {
					return fmt.Errorf("table %s: column %s: %w", t.full(), name, err)
				}
				c.charset = dec
			}
			t.columns = append(t.columns, c)
			return nil
		})
	if err != nil {
		return err
	}
	if err := s.loadKey(ctx, t); err != nil || !s.mariadb {
		return err
	}
	return s.markJSON(ctx, t)
}

func (s *server) loadKey(ctx context.Context, t *table) error {
	return s.each(ctx, "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX",
		[]any{t.db, t.name}, func(scan func(...any) error) error {
			var name string
			if err := scan(&name); err != nil {
				return err
			}
			if i := t.find(name); i >= 0 {
				t.key = append(t.key, i)
			}
			return nil
		})
}

func (t *table) find(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

// markJSON finds the columns that MariaDB made of type JSON: texts with a check.
func (s *server) markJSON(ctx context.Context, t *table) error {
	return s.each(ctx, "SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?",
		[]any{t.db, t.name}, func(scan func(...any) error) error {
			var clause string
			if err := scan(&clause); err != nil {
				return err
			}
			for i := range t.columns {
				if c := &t.columns[i]; c.dataType == "longtext" && strings.EqualFold(clause, "json_valid("+quoteName(c.name)+")") {
					c.kind = kindJSON
				}
			}
			return nil
		})
}

// quoteName quotes an identifier for a query.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// listed reads the values out of a type such as enum('a','it”s').
func listed(columnType string) []string {
	var values []string
	_, rest, _ := strings.Cut(columnType, "(")
	for len(rest) > 0 && rest[0] == '\'' {
		var value strings.Builder
		i := 1
		for ; i < len(rest); i++ {
			c := rest[i]
			if c == '\'' && (i+1 >= len(rest) || rest[i+1] != '\'') {
				break
			}
			if c == '\'' || c == '\\' && i+1 < len(rest) {
				i++
				c = unescaped(rest[i])
			}
			value.WriteByte(c)
		}
		values = append(values, value.String())
		rest = strings.TrimPrefix(rest[min(i+1, len(rest)):], ",")
	}
	return values
}

// unescaped is what a character means behind a backslash.
func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case '0':
		return 0
	}
	return c
}
