// Package cell writes one value of one column as JSON, the same whether a query or
// the binlog gave it.
package cell

import "millrace/bus/event"

// Kind is how a column's values are written.
type Kind uint8

// The kinds. A value of an unknown one is never written.
const (
	KindUnknown Kind = iota
	KindInt          // numbers of up to 64 bits, but unsigned 64
	KindUint64       // as text
	KindFloat
	KindDouble
	KindDecimal
	KindDate
	KindDatetime
	KindTimestamp
	KindTime
	KindYear
	KindBit
	KindEnum
	KindSet
	KindText
	KindBinary
	KindJSON
	KindGeometry
	KindVector
	KindUUID
	KindInet
)

// Column is one column of a table.
type Column struct {
	Name     string
	Label    []byte // "name": as JSON
	Kind     Kind
	DataType string // as the server calls it; empty where only the binlog was asked
	Unsigned bool
	Charset  *Charset // of text, enum and set
	Values   []string // of enum and set
	Width    int      // of BINARY in bytes (0 = not padded), of BIT in bits
	Decimals int      // of times: digits of a second's fraction
}

// SetName sets Name and Label.
func (c *Column) SetName(name string) {
	c.Name = name
	c.Label = append(event.AppendQuoted(nil, name), ':')
}

// KindOf is how values of a type that information_schema names are written;
// an unsigned bigint's are text besides.
func KindOf(dataType string) Kind {
	switch dataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return KindInt
	case "float":
		return KindFloat
	case "double":
		return KindDouble
	case "decimal":
		return KindDecimal
	case "date":
		return KindDate
	case "datetime":
		return KindDatetime
	case "timestamp":
		return KindTimestamp
	case "time":
		return KindTime
	case "year":
		return KindYear
	case "bit":
		return KindBit
	case "enum":
		return KindEnum
	case "set":
		return KindSet
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return KindText
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return KindBinary
	case "json":
		return KindJSON
	case "vector":
		return KindVector
	case "uuid":
		return KindUUID
	case "inet4", "inet6":
		return KindInet
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return KindGeometry
	}
	return KindUnknown
}
