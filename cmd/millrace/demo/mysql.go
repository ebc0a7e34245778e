package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mariaDB is a server of the run's own, in its directory.
type mariaDB struct {
	dir, socket, password string
	port                  int
	cmd                   *exec.Cmd
}

// startMariaDB runs a MariaDB; as root it installs Debian's packages first. Where
// it cannot, it says why and that is no error.
func startMariaDB(ctx context.Context, r *run) (db *mariaDB, reason string, err error) {
	if _, err := exec.LookPath("mariadbd"); err != nil {
		if os.Geteuid() != 0 {
			return nil, "mariadbd is not installed, and only root can install it (Debian: apt-get install mariadb-server)", nil
		}
		if _, err := exec.LookPath("apt-get"); err != nil {
			return nil, "mariadbd is not installed and there is no apt-get", nil //nolint:nilerr // the reason is said, and the demo goes on without
		}
		r.say("installing Debian's mariadb-server (about a minute)")
		if out, err := installMariaDB(ctx); err != nil {
			return nil, fmt.Sprintf("mariadb-server could not be installed (%v: %s)", err, lastLine(out)), nil
		}
	}
	db = &mariaDB{dir: filepath.Join(r.dir, "mariadb"), password: "only-for-the-demo"}
	db.socket = filepath.Join(db.dir, "sock")
	if db.port, err = freePort(ctx); err != nil {
		return nil, "", err
	}
	data := filepath.Join(db.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, "", fmt.Errorf("demo: %w", err)
	}
	var user []string
	if os.Geteuid() == 0 {
		user = []string{"--user=root"}
	}
	install := exec.CommandContext(ctx, "mariadb-install-db", append(user, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Sprintf("mariadb-install-db failed (%v: %s)", err, lastLine(string(out))), nil
	}
	db.cmd = exec.CommandContext(ctx, "mariadbd", append([]string{
		"--no-defaults", "--datadir=" + data, "--socket=" + db.socket, "--bind-address=127.0.0.1", fmt.Sprint("--port=", db.port),
		"--server-id=1", "--log-bin=" + filepath.Join(data, "bin"), "--binlog-format=ROW", "--binlog-row-metadata=FULL",
		"--pid-file=" + filepath.Join(db.dir, "pid"), "--innodb-flush-log-at-trx-commit=2",
	}, user...)...)
	db.cmd.Cancel = func() error { return db.cmd.Process.Signal(syscall.SIGTERM) }
	if err := db.cmd.Start(); err != nil {
		return nil, fmt.Sprintf("mariadbd did not start (%v)", err), nil
	}
	_, ok, err := until(ctx, 30*time.Second, func() (bool, error) { return db.query(ctx, "SELECT 1") == nil, nil })
	if err != nil || !ok {
		db.stop()
		return nil, "mariadbd did not answer within 30 seconds", err
	}
	err = db.query(ctx, `CREATE DATABASE shop;
		CREATE USER millrace@'%' IDENTIFIED BY '`+db.password+`';
		GRANT SELECT, RELOAD, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO millrace@'%';
		CREATE TABLE shop.products (id INT PRIMARY KEY, name VARCHAR(100), text TEXT, price DECIMAL(10,2)) CHARACTER SET utf8mb4;
		INSERT INTO shop.products VALUES
		(1,'Heron','A touring bicycle with a belt drive for long journeys','2890.00'),
		(2,'Kestrel','A light racing bicycle of carbon','5400.00'),
		(3,'Pelican','A cargo bicycle that carries three children','6150.50'),
		(4,'Plover','A folding bicycle for trains','1290.00'),
		(5,'Wagtail','A bicycle for children who ride to school','420.00');`)
	if err != nil {
		db.stop()
		return nil, "", fmt.Errorf("demo: MySQL: %w", err)
	}
	return db, "", nil
}

func installMariaDB(ctx context.Context) (string, error) {
	var all strings.Builder
	for _, args := range [][]string{
		{"install", "-qq", "-y", "--no-install-recommends", "mariadb-server-core", "mariadb-client-core"},
		{"update", "-qq"},
		{"install", "-qq", "-y", "--no-install-recommends", "mariadb-server-core", "mariadb-client-core"},
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		all.Write(out)
		if args[0] == "install" && err == nil {
			return all.String(), nil
		}
	}
	return all.String(), errors.New("apt-get install failed")
}

func (db *mariaDB) stop() {
	_ = db.cmd.Process.Signal(syscall.SIGTERM)
	_ = db.cmd.Wait()
}

// query runs statements with the mariadb client.
func (db *mariaDB) query(ctx context.Context, sql string) error {
	cmd := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--socket="+db.socket, "--user=root", "--default-character-set=utf8mb4")
	cmd.Stdin = strings.NewReader(sql)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (r *run) mysql(ctx context.Context, db *mariaDB) error {
	r.begin("MySQL", "a MariaDB table's snapshot and live changes → a file, and a search")
	if err := r.node.apply(ctx, filepath.Join(r.o.Root, "examples", "mysql.yaml")); err != nil {
		return err
	}
	file := filepath.Join(r.dir, "products.ndjson")
	took, ok, err := until(ctx, patience, func() (bool, error) {
		all, err := lines(file)
		return len(all) == 5, err
	})
	if err != nil {
		return err
	}
	r.check(ok, "the snapshot's 5 rows are in the file after %.1f s", took.Seconds())
	err = db.query(ctx, `UPDATE shop.products SET text='A touring bicycle with a rohloff gearbox', price=2990.00 WHERE id=1;
		DELETE FROM shop.products WHERE id=4;
		INSERT INTO shop.products VALUES (6,'Dunlin','A tandem for two riders','3999.99');`)
	if err != nil {
		return err
	}
	// An update, a delete and its tombstone, an insert. Unwrapped, a delete is a
	// tombstone too.
	took, ok, err = until(ctx, patience, func() (bool, error) {
		all, err := lines(file)
		text := strings.Join(all, "\n")
		return strings.Contains(text, "rohloff") && strings.Contains(text, `"price":"3999.99"`) && len(all) >= 8, err
	})
	if err != nil {
		return err
	}
	r.check(ok, "an update, a delete and an insert follow after %.1f s, decimals exact", took.Seconds())
	ask := func(query, want string) (bool, error) {
		hits, err := r.search(ctx, "products-search", query, 1)
		return len(hits) == 1 && strings.Contains(hits[0].Text, want), err
	}
	_, ok, err = until(ctx, patience, func() (bool, error) {
		updated, err1 := ask("rohloff gearbox", "Heron")
		added, err2 := ask("tandem for two", "Dunlin")
		return updated && added, errors.Join(err1, err2)
	})
	if err != nil {
		return err
	}
	r.check(ok, "the search finds the changed and the new row")
	_, ok, err = until(ctx, patience, func() (bool, error) {
		plover, err := ask("folding bicycle for trains", "Plover")
		return !plover, err
	})
	if err != nil {
		return err
	}
	r.check(ok, "and the deleted one no more")
	return nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("demo: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
