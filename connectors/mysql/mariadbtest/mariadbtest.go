// Package mariadbtest runs real MariaDB servers for tests, each in a temporary
// directory on a free port.
package mariadbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// Skip is the environment variable that, set to a reason, skips tests on machines
// where the server cannot be installed. Without it they fail there.
const Skip = "MILLRACE_SKIP_MARIADB"

// User and Password are those of a user with what a source of changes needs.
const (
	User     = "cdc"
	Password = "let-me-read"
)

// patience is how long a server may take to start or stop.
const patience = time.Minute

// Server is a running server. Its time zone is +08:00 and it logs rows.
type Server struct {
	Port int
	// DB is open as an administrator.
	DB *sql.DB

	tb   testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
	done chan string // how the process ended
}

// Start runs a server until the test ends; args are added to its command line.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	for _, name := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := exec.LookPath(name); err != nil {
			if reason := os.Getenv(Skip); reason != "" {
				tb.Skipf("%s is not here, and %s says: %s", name, Skip, reason)
			}
			tb.Fatalf("%s is not here: install Debian's mariadb-server, or set %s to the reason why not", name, Skip)
		}
	}
	s := &Server{tb: tb, dir: tb.TempDir(), args: args}
	install := exec.CommandContext(tb.Context(), "mariadb-install-db", append([]string{
		"--no-defaults", "--datadir=" + s.data(), "--auth-root-authentication-method=normal", "--skip-test-db",
		"--innodb-log-file-size=16M",
	}, asRoot()...)...)
	install.Env = append(os.Environ(), "TMPDIR="+s.dir) // servers that share one disturb each other
	if out, err := install.CombinedOutput(); err != nil {
		tb.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	s.Restart()
	tb.Cleanup(s.stop)
	s.Exec(
		"CREATE USER "+User+"@'127.0.0.1' IDENTIFIED BY '"+Password+"'",
		"GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "+User+"@'127.0.0.1'",
	)
	return s
}

func asRoot() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Restart starts the server after Stop or Kill, on the same port where it had one.
func (s *Server) Restart() {
	s.tb.Helper()
	if s.Port == 0 {
		s.Port = freePort(s.tb)
	}
	out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer func() { _ = out.Close() }() // the server has its own
	args := append([]string{
		"--no-defaults", "--datadir=" + s.data(), "--socket=" + filepath.Join(s.dir, "s"), "--pid-file=" + filepath.Join(s.dir, "pid"),
		"--tmpdir=" + s.dir, "--port=" + strconv.Itoa(s.Port), "--bind-address=127.0.0.1", "--skip-name-resolve", "--server-id=7",
		"--log-bin=bin", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--default-time-zone=+08:00", "--character-set-server=utf8mb4",
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2", "--performance-schema=OFF", "--max-allowed-packet=64M",
	}, append(asRoot(), s.args...)...)
	s.cmd = exec.Command("mariadbd", args...) //nolint:gosec,noctx // ended by stop
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.done = make(chan string, 1)
	go func(cmd *exec.Cmd, done chan string) {
		_ = cmd.Wait() // the state says all
		done <- cmd.ProcessState.String()
	}(s.cmd, s.done)
	s.await()
}

// await opens the database as soon as it answers.
func (s *Server) await() {
	s.tb.Helper()
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Collation, cfg.MultiStatements, cfg.Logger = "unix", filepath.Join(s.dir, "s"), "root", "utf8mb4_general_ci", true, &driver.NopLogger{}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.DB = sql.OpenDB(connector)
	ctx, cancel := context.WithTimeout(s.tb.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = s.DB.PingContext(ctx); err == nil {
			return
		}
		select {
		case <-tick.C:
		case exit := <-s.done:
			s.cmd = nil
			s.tb.Fatalf("mariadbd ended: %s\n%s", exit, s.Log())
		case <-ctx.Done():
			s.tb.Fatalf("mariadbd does not answer: %v\n%s", err, s.Log())
		}
	}
}

// freePort returns a port that nobody listens on.
func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// Exec runs statements as an administrator.
func (s *Server) Exec(queries ...string) {
	s.tb.Helper()
	for _, q := range queries {
		if _, err := s.DB.ExecContext(s.tb.Context(), q); err != nil {
			s.tb.Fatalf("%.200s: %v", q, err)
		}
	}
}

// Stop ends the server in an orderly way.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Freeze stops the server from answering until Thaw; the system still takes its
// connections.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Errorf("%s: %v", sig, err)
	}
}

func (s *Server) end(sig os.Signal) {
	s.tb.Helper()
	if s.cmd == nil {
		return
	}
	if err := errors.Join(s.DB.Close(), s.cmd.Process.Signal(sig)); err != nil {
		s.tb.Errorf("stop: %v", err)
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		s.tb.Errorf("mariadbd does not stop\n%s", s.Log())
		_ = s.cmd.Process.Kill() // the test has failed
		<-s.done
	}
	s.cmd = nil
}

func (s *Server) stop() {
	if s.tb.Failed() {
		s.tb.Logf("mariadbd's log ends:\n%s", s.Log())
	}
	s.Kill()
}

// Log is the end of what the server said.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// Config is a source's config for this server; more keys are added to it.
func (s *Server) Config(more map[string]any) map[string]any {
	c := map[string]any{
		"database.hostname": "127.0.0.1", "database.port": s.Port, "database.user": User, "database.password": Password, "topic.prefix": "shop",
	}
	maps.Copy(c, more)
	return c
}

// String names the server.
func (s *Server) String() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }
