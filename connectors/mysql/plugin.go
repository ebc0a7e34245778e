package mysql

import "millrace/connectors"

// Plugin is the mysql connector: a source.
func Plugin() connectors.Plugin {
	source := connectors.SourceOf(openSource)
	source.Guarantee = "Exactly once into the topic: the place in the binlog is stored with the events."
	source.Aliases = []string{"io.debezium.connector.mysql.MySqlConnector", "io.debezium.connector.mariadb.MariaDbConnector"}
	return connectors.Plugin{
		Name:    "mysql",
		Summary: "MySQL and MariaDB: a snapshot of tables, then every change from the binlog.",
		Docs:    docs,
		Source:  source,
	}
}

const docs = `## What it needs

The server logs rows: ` + "`log_bin`, `binlog_format = ROW` and `binlog_row_image = FULL`" + `; the source checks them and says which is missing.
` + "`binlog_row_metadata = FULL`" + ` is strongly advised: the binlog then tells the columns of every change itself. Without it
column names are looked up in information_schema, and when a table was altered between a change and its reading so that they no longer fit, the source
stops and says so; columns that were renamed or swapped without another change of type cannot be noticed then.

` + "```sql" + `
CREATE USER cdc IDENTIFIED BY '…';
GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc;
` + "```" + `

## Snapshot and stream

On MariaDB the snapshot takes no lock; on MySQL a global read lock is held while the transaction begins. All tables are read as they are at one place in
the binlog, and the stream begins at exactly that place. If the source stops meanwhile, tables that are done stay done; one whose primary key is
a single integer goes on behind its last row, any other is read again from its start (those rows come twice, with the same ids where there is a primary key). What
was read later is left out of the stream up to that point, so every row's history is in order all the same. Tables that are not transactional (MyISAM,
Aria) are read as they are when their turn comes, so a change made meanwhile may be in the snapshot and in the stream.

The stored position is where the open transaction begins, with how many of its row events and rows are done, so that a stop in the middle of a
large transaction loses and repeats nothing. It moves with every transaction, also of tables that are not captured. If the server no longer has the binlog at the
position, or is another server, the source stops with an error that says so, unless ` + "`snapshot.mode` is `when_needed`" + `.

## Events

The topic is ` + "`<topic.prefix>.<database>.<table>`" + `; characters that topics do not allow become underscores. The data is Debezium's envelope:

` + "```json" + `
{"before":null,"after":{"id":1,"name":"Ada"},"op":"c",
 "source":{"version":"1","connector":"mariadb","name":"shop","ts_ms":1767225600000,"snapshot":"false","db":"shop","table":"users",
           "server_id":1,"gtid":"0-1-42","file":"bin.000003","pos":4711,"row":0},"ts_ms":1767225600005}
` + "```" + `

op is c, u, d or, in a snapshot, r; the type is millrace.row.insert, update, delete or read, the subject database.table, the time that of the commit as the binlog
has it. source.pos is where the row's event stands in the file. The key is a JSON object of the primary key's columns, or of all columns where there is no primary
key. A delete is followed by a tombstone (no data, the same key). An update that changes the key is a delete of the old key and an insert of the new. The id names
server, file, position of the transaction, row event and row; it is the same whenever the change is read again.

| Column | Value |
|---|---|
| integers, YEAR | number; BIGINT UNSIGNED: string |
| FLOAT, DOUBLE | the shortest number that reads back as the same |
| DECIMAL | string |
| DATE, DATETIME(3) | "2024-02-29", "2024-02-29T23:59:59.000"; with a zero month or day: null |
| TIMESTAMP(3) | "2024-02-29T23:59:59.000Z", in UTC |
| TIME | text, from "-838:59:59" on |
| BIT(n) | number up to 53 bits, else base64 of its bytes, the highest first |
| CHAR, VARCHAR, TEXT, ENUM, SET | text, from whatever character set |
| BINARY, VARBINARY, BLOB | base64; BINARY(n) always has n bytes |
| JSON | the document |
| geometries | {"srid": 4326, "wkb": base64} |
| UUID, INET4, INET6 | text |
| VECTOR (MySQL 9) | list of numbers |

Generated and invisible columns are there as well.

## Limits

XA transactions that change a captured table, rows logged in part (a session with another binlog_row_image) and changes logged as text (another
binlog_format) stop the source with an error. MariaDB's COMPRESSED columns are not supported. TRUNCATE and other definitions make no events. A transaction compressed by
MySQL (binlog_transaction_compression) is held in memory as a whole. File and position are used, not GTIDs, so after a failover to another
server a new snapshot is needed. Regular expressions are Go's (RE2), not Java's.
`
