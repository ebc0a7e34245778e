// Package mysql brings the rows of MySQL and MariaDB tables into topics: first a
// consistent snapshot, then the binlog from exactly that place.
//
// A position is where the open transaction starts in the binlog, with how many of
// its row events and rows are done, because a binlog can only be entered between
// transactions. Row events are counted before any filter, so that another table
// list does not shift them. While a snapshot runs, the position also says which
// tables and rows it has passed, and from which view of the data each part was
// read; the stream leaves out what a later view already held.
//
// server asks the database, table knows what its columns are, package cell writes
// one value, maker one event; snapshot and stream feed them, so a row looks the
// same whichever way it came.
package mysql
