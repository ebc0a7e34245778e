package mysql

import (
	"context"
	"fmt"
	"slices"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"millrace/connectors/mysql/cell"
)

// fromSchema says what the columns of a TABLE_MAP event are by what
// information_schema has now, which must fit the event.
func (s *server) fromSchema(ctx context.Context, m *replication.TableMapEvent) (*table, error) {
	now := &table{db: string(m.Schema), name: string(m.Table)}
	if err := s.load(ctx, now); err != nil {
		return nil, fmt.Errorf("table %s: %w", now.full(), err)
	}
	return now, fits(now, m)
}

// fromMap says what the columns of a TABLE_MAP event are by the names and types
// that the event itself tells (binlog_row_metadata = FULL).
func (s *server) fromMap(ctx context.Context, m *replication.TableMapEvent) (*table, error) {
	t := &table{db: string(m.Schema), name: string(m.Table)}
	now := &table{db: t.db, name: t.name}
	if s.mariadb { // its JSON, UUID and INET are known there alone
		if err := s.load(ctx, now); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.full(), err)
		}
	}
	unsigned, texts, lists := m.UnsignedMap(), m.CollationMap(), m.EnumSetCollationMap()
	enums, sets := m.EnumStrValueMap(), m.SetStrValueMap()
	for i, name := range m.ColumnNameString() {
		c := cell.Column{Unsigned: unsigned[i], Values: enums[i]}
		c.SetName(name)
		shape(&c, m, i)
		if c.Kind == cell.KindSet {
			c.Values = sets[i]
		}
		collation, known := texts[i]
		if c.Kind == cell.KindEnum || c.Kind == cell.KindSet {
			collation, known = lists[i]
		}
		if c.Kind == cell.KindText || c.Kind == cell.KindEnum || c.Kind == cell.KindSet {
			if !known {
				return nil, fmt.Errorf("table %s: column %s: the binlog does not tell its character set", t.full(), name)
			}
			if err := s.decoder(ctx, &c, m, i, collation); err != nil {
				return nil, fmt.Errorf("table %s: column %s: %w", t.full(), name, err)
			}
		}
		if j := now.find(name); j >= 0 {
			refine(&c, &now.columns[j])
		}
		if c.Kind == cell.KindUnknown {
			return nil, unsupported(t, &c, m.ColumnType[i])
		}
		t.columns = append(t.columns, c)
	}
	for _, k := range m.PrimaryKey {
		t.key = append(t.key, int(k)) //nolint:gosec // a column's index
	}
	return t, nil
}

func unsupported(t *table, c *cell.Column, typ byte) error {
	return fmt.Errorf("table %s: column %s: type %d of the binlog is not supported: leave the table out with table.exclude.list", t.full(), c.Name, typ)
}

// decoder sets a column's character set, and its values in it.
func (s *server) decoder(ctx context.Context, c *cell.Column, m *replication.TableMapEvent, i int, collation uint64) (err error) {
	if c.Charset, err = s.collation(ctx, collation); err != nil {
		return err
	}
	if c.Charset == nil {
		if c.Kind == cell.KindText {
			c.Kind = cell.KindBinary
			if m.ColumnType[i] == gomysql.MYSQL_TYPE_STRING {
				c.Width = stringLength(m.ColumnMeta[i])
			}
		}
		c.Charset = &cell.Charset{} // an enum of binary values is taken as it is
	}
	c.Values = slices.Clone(c.Values)
	for j, v := range c.Values {
		text, err := c.Charset.Text([]byte(v))
		if err != nil {
			return err
		}
		c.Values[j] = string(text)
	}
	return nil
}

// shape says what the binlog's type of a column is. What looks like text may be
// binary: its character set tells.
func shape(c *cell.Column, m *replication.TableMapEvent, i int) {
	meta := m.ColumnMeta[i]
	switch m.ColumnType[i] {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG:
		c.Kind = cell.KindInt
	case gomysql.MYSQL_TYPE_LONGLONG:
		c.Kind = cell.KindInt
		if c.Unsigned {
			c.Kind = cell.KindUint64
		}
	case gomysql.MYSQL_TYPE_FLOAT:
		c.Kind = cell.KindFloat
	case gomysql.MYSQL_TYPE_DOUBLE:
		c.Kind = cell.KindDouble
	case gomysql.MYSQL_TYPE_NEWDECIMAL:
		c.Kind = cell.KindDecimal
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_NEWDATE:
		c.Kind = cell.KindDate
	case gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_DATETIME2:
		c.Kind, c.Decimals = cell.KindDatetime, int(meta)
	case gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIMESTAMP2:
		c.Kind, c.Decimals = cell.KindTimestamp, int(meta)
	case gomysql.MYSQL_TYPE_TIME, gomysql.MYSQL_TYPE_TIME2:
		c.Kind, c.Decimals = cell.KindTime, int(meta)
	case gomysql.MYSQL_TYPE_YEAR:
		c.Kind = cell.KindYear
	case gomysql.MYSQL_TYPE_BIT:
		c.Kind, c.Width = cell.KindBit, int(meta>>8)*8+int(meta&0xff)
	case gomysql.MYSQL_TYPE_JSON:
		c.Kind = cell.KindJSON
	case gomysql.MYSQL_TYPE_GEOMETRY:
		c.Kind = cell.KindGeometry
	case gomysql.MYSQL_TYPE_VECTOR:
		c.Kind = cell.KindVector
	case gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_BLOB:
		c.Kind = cell.KindText
	case gomysql.MYSQL_TYPE_STRING:
		switch byte(meta >> 8) {
		case gomysql.MYSQL_TYPE_ENUM:
			c.Kind = cell.KindEnum
		case gomysql.MYSQL_TYPE_SET:
			c.Kind = cell.KindSet
		default:
			c.Kind = cell.KindText
		}
	}
}

// stringLength is the width in bytes of a CHAR or BINARY.
func stringLength(meta uint16) int {
	b0, b1 := meta>>8, meta&0xff
	if b0&0x30 != 0x30 {
		return int(b1 | (b0&0x30^0x30)<<4)
	}
	return int(b1)
}

// refine takes over what information_schema alone tells, where it can be true of
// a column as the binlog shows it.
func refine(c *cell.Column, now *cell.Column) {
	c.DataType = now.DataType
	switch {
	case now.Kind == cell.KindJSON && c.Kind == cell.KindText,
		now.Kind == cell.KindVector && c.Kind == cell.KindBinary,
		now.Kind == cell.KindUUID && c.Kind == cell.KindBinary && c.Width == 16,
		now.Kind == cell.KindInet && c.Kind == cell.KindBinary && (c.Width == 4 || c.Width == 16):
		c.Kind = now.Kind
	}
}

// fits checks that a table as it is now can be that of a TABLE_MAP event.
func fits(now *table, m *replication.TableMapEvent) error {
	if len(now.columns) != len(m.ColumnType) {
		return fmt.Errorf("table %s had %d columns in the binlog and has %d now: %s", now.full(), len(m.ColumnType), len(now.columns), metadataFix)
	}
	for i := range now.columns {
		c := &now.columns[i]
		was := cell.Column{Unsigned: c.Unsigned}
		shape(&was, m, i)
		switch {
		case was.Kind == cell.KindUnknown:
			return unsupported(now, c, m.ColumnType[i])
		case was.Kind != c.Kind && (was.Kind != cell.KindText || !textual(c)), was.Decimals != c.Decimals, was.Kind == cell.KindBit && was.Width != c.Width:
			return fmt.Errorf("table %s: column %s had another type in the binlog than now: %s", now.full(), c.Name, metadataFix)
		}
		if c.Kind == cell.KindUUID || c.Kind == cell.KindInet {
			c.Width = stringLength(m.ColumnMeta[i])
		}
	}
	return nil
}

// textual reports whether the binlog shows the column like text.
func textual(c *cell.Column) bool {
	return c.Kind == cell.KindText || c.Kind == cell.KindBinary || c.Kind == cell.KindJSON || c.Kind == cell.KindVector || c.Kind == cell.KindUUID || c.Kind == cell.KindInet
}

// decodable reports whether all columns of a table are of known types; the sizes of
// others are not known.
func decodable(m *replication.TableMapEvent) bool {
	for i := range m.ColumnType {
		var c cell.Column
		if shape(&c, m, i); c.Kind == cell.KindUnknown {
			return false
		}
	}
	return true
}
