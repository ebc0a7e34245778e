package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"millrace/connectors/mysql/cell"
)

// table is what is known of a table at one time.
type table struct {
	db, name string
	columns  []cell.Column
	key      []int // the primary key's columns, in its order; empty: none
}

// full is the table's name in filters and positions.
func (t *table) full() string { return t.db + "." + t.name }

// integer is the column that is the whole primary key and an integer; -1 where
// the key is otherwise.
func (t *table) integer() int {
	if len(t.key) == 1 {
		if k := t.columns[t.key[0]].Kind; k == cell.KindInt || k == cell.KindUint64 {
			return t.key[0]
		}
	}
	return -1
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
			c := cell.Column{DataType: dataType, Kind: cell.KindOf(dataType), Unsigned: strings.Contains(columnType, "unsigned"), Decimals: int(fraction.Int64)}
			c.SetName(name)
			switch {
			case strings.Contains(columnType, " COMPRESSED"): // MariaDB's; the binlog has another form
				c.Kind = cell.KindUnknown
			case dataType == "bigint" && c.Unsigned:
				c.Kind = cell.KindUint64
			case dataType == "binary":
				c.Width = int(octets.Int64)
			case c.Kind == cell.KindBit:
				c.Width = int(precision.Int64)
			case c.Kind == cell.KindEnum || c.Kind == cell.KindSet:
				c.Values = listed(columnType)
			}
			if charset.Valid && c.Kind != cell.KindJSON {
				dec, err := s.charset(ctx, charset.String)
				if err != nil {
					return fmt.Errorf("table %s: column %s: %w", t.full(), name, err)
				}
				c.Charset = dec
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
	return slices.IndexFunc(t.columns, func(c cell.Column) bool { return c.Name == name })
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
				if c := &t.columns[i]; c.DataType == "longtext" && strings.EqualFold(clause, "json_valid("+quoteName(c.Name)+")") {
					c.Kind = cell.KindJSON
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
