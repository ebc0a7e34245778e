package mysql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"millrace/connectors/mysql/cell"
)

// Errors of the server that are told apart.
const (
	errAccessUser     = 1045
	errAccessDatabase = 1044
	errPrivilege      = 1227
	errSyntax         = 1064
	errBinlog         = 1236
)

// server is the database as asked by SQL. It is used by one goroutine.
type server struct {
	db      *sql.DB
	dial    *dialer
	addr    string
	tls     *tls.Config // what replication uses as well; nil is none
	mariadb bool
	version string
	// identity tells servers apart whose binlogs have files of the same names:
	// server_uuid, or MariaDB's server_id.
	identity string
	id       uint32

	charsets   map[string]*cell.Charset
	collations map[uint64]string // id → character set
}

// flavor is the name that events and go-mysql use.
func (s *server) flavor() string {
	if s.mariadb {
		return "mariadb"
	}
	return "mysql"
}

// connect opens the database and asks who it is.
func connect(ctx context.Context, c *config) (*server, error) {
	s := &server{addr: net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), dial: &dialer{timeout: c.ConnectTimeout}, charsets: map[string]*cell.Charset{}}
	cfg := driver.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.Timeout = c.User, c.Password.Reveal(), "tcp", s.addr, c.ConnectTimeout
	cfg.DialFunc, cfg.Collation = s.dial.dial, "utf8mb4_general_ci"
	cfg.InterpolateParams, cfg.Logger = true, &driver.NopLogger{}
	// What a value looks like must not depend on the server's settings.
	cfg.Params = map[string]string{"time_zone": "'+00:00'", "sql_mode": "''", "net_write_timeout": "86400"}
	switch c.SSLMode {
	case "preferred":
		cfg.TLSConfig = "preferred"
		s.tls = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the mode says so
	case "required":
		s.tls = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the mode says so
		cfg.TLS = s.tls
	case "verify_identity":
		s.tls = &tls.Config{ServerName: c.Host, MinVersion: tls.VersionTLS12}
		cfg.TLS = s.tls
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("database.hostname: %w", err)
	}
	s.db = sql.OpenDB(connector)
	s.db.SetMaxOpenConns(4)
	s.db.SetMaxIdleConns(1)
	s.db.SetConnMaxIdleTime(time.Minute)
	if err := s.greet(ctx, c); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

func (s *server) greet(ctx context.Context, c *config) error {
	within, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	err := s.db.QueryRowContext(within, "SELECT VERSION(), @@server_id").Scan(&s.version, &s.id)
	var refused *driver.MySQLError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused) && (refused.Number == errAccessUser || refused.Number == errAccessDatabase):
		return fmt.Errorf("database.user: %s refuses %s: %w", s.addr, c.User, err)
	case err != nil:
		return fmt.Errorf("database.hostname: no connection to %s: %w", s.addr, err)
	}
	s.mariadb = strings.Contains(s.version, "MariaDB")
	s.identity = strconv.FormatUint(uint64(s.id), 10)
	if !s.mariadb {
		if err := s.db.QueryRowContext(ctx, "SELECT @@server_uuid").Scan(&s.identity); err != nil {
			return err
		}
	}
	if c.SSLMode == "preferred" {
		cipher, err := s.variable(ctx, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
		if err != nil {
			return err
		}
		if cipher == "" {
			s.tls = nil
		}
	}
	return nil
}

// atLeast compares the server's version.
func (s *server) atLeast(major, minor int) bool {
	var x, y int
	if _, err := fmt.Sscanf(s.version, "%d.%d", &x, &y); err != nil {
		return false
	}
	return x > major || x == major && y >= minor
}

// variable returns the value of a SHOW … LIKE; "" where there is none.
func (s *server) variable(ctx context.Context, query string) (string, error) {
	var name, value string
	err := s.db.QueryRowContext(ctx, query).Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// each calls row for every row of an answer.
func (s *server) each(ctx context.Context, query string, args []any, row func(scan func(...any) error) error) (err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// check says, before anything is read, what the server lacks.
func (s *server) check(ctx context.Context) error {
	for _, v := range []struct{ name, want, fix string }{
		{"log_bin", "ON", "start the server with --log-bin: without a binlog there are no changes to read"},
		{"binlog_format", "ROW", "SET GLOBAL binlog_format = 'ROW', and binlog_format = ROW in the server's configuration"},
		{"binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = 'FULL', and binlog_row_image = FULL in the server's configuration"},
		{"binlog_row_value_options", "", "SET GLOBAL binlog_row_value_options = ''"},
	} {
		got, err := s.variable(ctx, "SHOW GLOBAL VARIABLES LIKE '"+v.name+"'")
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		missing := got == "" && v.name != "log_bin" // a variable that later servers dropped
		if !missing && !strings.EqualFold(got, v.want) {
			return fmt.Errorf("the server's %s is %q and must be %q: %s", v.name, got, v.want, v.fix)
		}
	}
	_, err := s.logs(ctx)
	return err
}

// logFile is one file of the binlog.
type logFile struct {
	name string
	size uint64
}

// logs lists the binlog's files, oldest first.
func (s *server) logs(ctx context.Context) (files []logFile, err error) {
	rows, err := s.db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, s.privilege(err, "SHOW BINARY LOGS")
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns() // two, and more in later versions
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var f logFile
		dest := make([]any, len(columns))
		for i := range dest {
			dest[i] = new(any)
		}
		dest[0], dest[1] = &f.name, &f.size
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, rows.Err()
}

// privilege explains a refusal.
func (s *server) privilege(err error, what string) error {
	var refused *driver.MySQLError
	if !errors.As(err, &refused) || refused.Number != errPrivilege && refused.Number != errAccessUser {
		return fmt.Errorf("%s: %w", what, err)
	}
	grant := "REPLICATION SLAVE, REPLICATION CLIENT"
	if s.mariadb {
		grant = "REPLICATION SLAVE, BINLOG MONITOR (before 10.5: REPLICATION CLIENT)"
	}
	if strings.HasPrefix(what, "FLUSH") {
		grant = "RELOAD"
	}
	return fmt.Errorf("database.user: %s is refused: GRANT %s ON *.* to the user: %w", what, grant, err)
}

// querier is what a single connection and the pool share.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// current asks where the binlog ends.
func (s *server) current(ctx context.Context, q querier) (place, error) {
	var last error
	for _, query := range []string{"SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"} { // the second since MySQL 8.4
		p, err := status(ctx, q, query)
		if err == nil {
			return p, nil
		}
		var refused *driver.MySQLError
		if !errors.As(err, &refused) || refused.Number != errSyntax {
			return place{}, s.privilege(err, query)
		}
		last = err
	}
	return place{}, last
}

// status reads file and position, the first two columns of an answer.
func status(ctx context.Context, q querier, query string) (p place, err error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return p, err
	}
	if !rows.Next() {
		return p, errors.Join(errors.New("the server has no binlog: start it with --log-bin"), rows.Err())
	}
	dest := make([]any, len(columns))
	for i := range dest {
		dest[i] = new(any)
	}
	dest[0], dest[1] = &p.File, &p.Pos
	return p, rows.Scan(dest...)
}
