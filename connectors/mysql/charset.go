package mysql

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"millrace/connectors/mysql/cell"
)

// binaryCollation is the id of the one collation of binary data.
const binaryCollation = 63

// charset returns the decoder of a character set.
func (s *server) charset(ctx context.Context, name string) (*cell.Charset, error) {
	if c := s.charsets[name]; c != nil {
		return c, nil
	}
	c := &cell.Charset{}
	enc, known := cell.Multibyte(name)
	if c.Multi = enc; !known {
		table, err := s.singleBytes(ctx, name)
		if err != nil {
			return nil, err
		}
		c.Single = table
	}
	s.charsets[name] = c
	return c, nil
}

// singleBytes asks the server what each byte of a character set means.
func (s *server) singleBytes(ctx context.Context, name string) (*[256]rune, error) {
	for i := range len(name) { // it becomes part of a query
		if b := name[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			return nil, fmt.Errorf("character set %q is not known", name)
		}
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var answer string
	if err := s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT HEX(CONVERT(_%s 0x%x USING utf32))", name, all)).Scan(&answer); err != nil {
		return nil, fmt.Errorf("character set %s: %w", name, err)
	}
	points, err := hex.DecodeString(answer)
	if err != nil || len(points) != 4*len(all) {
		return nil, fmt.Errorf("character set %s is not supported: leave the table out with table.exclude.list, or convert the column to utf8mb4", name)
	}
	table := new([256]rune)
	for i := range table {
		table[i] = rune(binary.BigEndian.Uint32(points[4*i:])) //nolint:gosec // a code point
	}
	return table, nil
}

// collation returns the decoder for a collation's id; nil is binary.
func (s *server) collation(ctx context.Context, id uint64) (*cell.Charset, error) {
	if id == binaryCollation {
		return nil, nil //nolint:nilnil // binary data has no characters
	}
	if s.collations == nil {
		names, err := s.loadCollations(ctx)
		if err != nil {
			return nil, fmt.Errorf("collations: %w", err)
		}
		s.collations = names
	}
	name, ok := s.collations[id]
	if !ok {
		return nil, fmt.Errorf("the server knows no collation %d", id)
	}
	return s.charset(ctx, name)
}

func (s *server) loadCollations(ctx context.Context) (map[uint64]string, error) {
	names := map[uint64]string{}
	queries := []string{"SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL AND CHARACTER_SET_NAME IS NOT NULL"}
	if s.mariadb && s.atLeast(10, 10) { // collations that many character sets share
		queries = append(queries, "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL")
	}
	for _, q := range queries {
		if err := s.each(ctx, q, nil, func(scan func(...any) error) error {
			var id uint64
			var name string
			if err := scan(&id, &name); err != nil {
				return err
			}
			names[id] = name
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return names, nil
}
