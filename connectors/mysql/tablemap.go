package mysql

import (
	"context"
	"fmt"
	"slices"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
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
		c := column{unsigned: unsigned[i], values: enums[i]}
		c.named(name)
		c.shape(m, i)
		if c.kind == kindSet {
			c.values = sets[i]
		}
		collation, known := texts[i]
		if c.kind == kindEnum || c.kind == kindSet {
			collation, known = lists[i]
		}
		if c.kind == kindText || c.kind == kindEnum || c.kind == kindSet {
			if !known {
				return nil, fmt.Errorf("table %s: column %s: the binlog does not tell its character set", t.full(), name)
			}
			if err := s.decoder(ctx, &c, m, i, collation); err != nil {
				return nil, fmt.Errorf("table %s: column %s: %w", t.full(), name, err)
			}
		}
		if j := now.find(name); j >= 0 {
			c.refine(&now.columns[j])
		}
		if c.kind == kindUnknown {
			return nil, unsupported(t, &c, m.ColumnType[i])
		}
		t.columns = append(t.columns, c)
	}
	for _, k := range m.PrimaryKey {
		t.key = append(t.key, int(k)) //nolint:gosec // a column's index
	}
	return t, nil
}

func unsupported(t *table, c *column, typ byte) error {
	return fmt.Errorf("table %s: column %s: type %d of the binlog is not supported: leave the table out with table.exclude.list", t.full(), c.name, typ)
}

// decoder sets a column's character set, and its values in it.
func (s *server) decoder(ctx context.Context, c *column, m *replication.TableMapEvent, i int, collation uint64) (err error) {
	if c.charset, err = s.collation(ctx, collation); err != nil {
		return err
	}
	if c.charset == nil {
		if c.kind == kindText {
			c.kind = kindBinary
			if m.ColumnType[i] == gomysql.MYSQL_TYPE_STRING {
				c.width = stringLength(m.ColumnMeta[i])
			}
		}
		c.charset = &charset{} // an enum of binary values is taken as it is
	}
	c.values = slices.Clone(c.values)
	for j, v := range c.values {
		text, err := c.charset.text([]byte(v))
		if err != nil {
			return err
		}
		c.values[j] = string(text)
	}
	return nil
}

// shape says what the binlog's type of a column is. What looks like text may be
// binary: its character set tells.
func (c *column) shape(m *replication.TableMapEvent, i int) {
	meta := m.ColumnMeta[i]
	switch m.ColumnType[i] {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG:
		c.kind = kindInt
	case gomysql.MYSQL_TYPE_LONGLONG:
		c.kind = kindInt
		if c.unsigned {
			c.kind = kindUint64
		}
	case gomysql.MYSQL_TYPE_FLOAT:
		c.kind = kindFloat
	case gomysql.MYSQL_TYPE_DOUBLE:
		c.kind = kindDouble
	case gomysql.MYSQL_TYPE_NEWDECIMAL:
		c.kind = kindDecimal
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_NEWDATE:
		c.kind = kindDate
	case gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_DATETIME2:
		c.kind, c.decimals = kindDatetime, int(meta)
	case gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIMESTAMP2:
		c.kind, c.decimals = kindTimestamp, int(meta)
	case gomysql.MYSQL_TYPE_TIME, gomysql.MYSQL_TYPE_TIME2:
		c.kind, c.decimals = kindTime, int(meta)
	case gomysql.MYSQL_TYPE_YEAR:
		c.kind = kindYear
	case gomysql.MYSQL_TYPE_BIT:
		c.kind, c.width = kindBit, int(meta>>8)*8+int(meta&0xff)
	case gomysql.MYSQL_TYPE_JSON:
		c.kind = kindJSON
	case gomysql.MYSQL_TYPE_GEOMETRY:
		c.kind = kindGeometry
	case gomysql.MYSQL_TYPE_VECTOR:
		c.kind = kindVector
	case gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_BLOB:
		c.kind = kindText
	case gomysql.MYSQL_TYPE_STRING:
		switch byte(meta >> 8) {
		case gomysql.MYSQL_TYPE_ENUM:
			c.kind = kindEnum
		case gomysql.MYSQL_TYPE_SET:
			c.kind = kindSet
		default:
			c.kind = kindText
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
func (c *column) refine(now *column) {
	c.dataType = now.dataType
	switch {
	case now.kind == kindJSON && c.kind == kindText,
		now.kind == kindVector && c.kind == kindBinary,
		now.kind == kindUUID && c.kind == kindBinary && c.width == 16,
		now.kind == kindInet && c.kind == kindBinary && (c.width == 4 || c.width == 16):
		c.kind = now.kind
	}
}

// fits checks that a table as it is now can be that of a TABLE_MAP event.
func fits(now *table, m *replication.TableMapEvent) error {
	if len(now.columns) != len(m.ColumnType) {
		return fmt.Errorf("table %s had %d columns in the binlog and has %d now: %s", now.full(), len(m.ColumnType), len(now.columns), metadataFix)
	}
	for i := range now.columns {
		c := &now.columns[i]
		was := column{unsigned: c.unsigned}
		was.shape(m, i)
		switch {
		case was.kind == kindUnknown:
			return unsupported(now, c, m.ColumnType[i])
		case was.kind != c.kind && (was.kind != kindText || !c.textual()), was.decimals != c.decimals, was.kind == kindBit && was.width != c.width:
			return fmt.Errorf("table %s: column %s had another type in the binlog than now: %s", now.full(), c.name, metadataFix)
		}
		if c.kind == kindUUID || c.kind == kindInet {
			c.width = stringLength(m.ColumnMeta[i])
		}
	}
	return nil
}

// textual reports whether the binlog shows the column like text.
func (c *column) textual() bool {
	return c.kind == kindText || c.kind == kindBinary || c.kind == kindJSON || c.kind == kindVector || c.kind == kindUUID || c.kind == kindInet
}

// decodable reports whether all columns of a table are of known types; the sizes of
// others are not known.
func decodable(m *replication.TableMapEvent) bool {
	for i := range m.ColumnType {
		var c column
		if c.shape(m, i); c.kind == kindUnknown {
			return false
		}
	}
	return true
}
