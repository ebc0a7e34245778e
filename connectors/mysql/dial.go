package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

const (
	// heartbeat is how often an idle server is heard of, silence after how long the
	// connection counts as lost.
	heartbeat = 10 * time.Second
	silence   = 45 * time.Second
	// farewell bounds the connection that tells the server to end a dump.
	farewell = time.Second
	// ahead is how many binlog events may be decoded before they are asked for.
	ahead = 16
)

// dialer makes connections that can be ended from outside, so that no call waits
// for a server that does not answer.
type dialer struct {
	timeout time.Duration
	// handshake says that the first answer must come within timeout as well; who
	// uses the connection sets the deadlines from then on.
	handshake bool

	mu      sync.Mutex
	conns   map[*tracked]bool
	closing bool
}

// tracked is a connection that its dialer knows while it is open.
type tracked struct {
	*net.TCPConn
	dialer *dialer
}

// Close closes the connection.
func (t *tracked) Close() error {
	t.dialer.mu.Lock()
	delete(t.dialer.conns, t)
	t.dialer.mu.Unlock()
	return t.TCPConn.Close()
}

// dial connects by TCP.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	timeout := d.timeout
	if d.closing {
		timeout = farewell
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("network %s is not TCP", network), conn.Close())
	}
	t := &tracked{TCPConn: tcp, dialer: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		d.conns = map[*tracked]bool{}
	}
	d.conns[t] = true
	if d.handshake || d.closing {
		return t, t.SetReadDeadline(time.Now().Add(timeout))
	}
	return t, nil
}

// hurry makes whatever waits for an answer give up soon.
func (d *dialer) hurry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	for t := range d.conns {
		_ = t.SetDeadline(time.Now().Add(farewell / 10)) // it may be closed already
	}
}

// dump is a running binlog dump.
type dump struct {
	syncer   *replication.BinlogSyncer
	streamer *replication.BinlogStreamer
	dial     *dialer
}

// startDump asks the server for its binlog from a place on. Rows of tables that
// are not captured are not decoded.
func (s *server) startDump(ctx context.Context, c *config, serverID uint32, at place, f *filter) (*dump, error) {
	d := &dump{dial: &dialer{timeout: c.ConnectTimeout, handshake: true}}
	d.syncer = replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: serverID, Flavor: s.flavor(), Host: c.Host, Port: uint16(c.Port), //nolint:gosec // checked
		User: c.User, Password: c.Password.Reveal(), TLSConfig: s.tls, Charset: "utf8mb4", Localhost: "millrace",
		Dialer: d.dial.dial, HeartbeatPeriod: heartbeat, ReadTimeout: silence, DisableRetrySync: true,
		Logger: slog.New(slog.DiscardHandler), EventCacheCount: ahead, DiscardGTIDSet: true,
		TimestampStringLocation: time.UTC, RenderJSONAsMySQLText: true,
		FillZeroLogPos: s.mariadb && s.atLeast(11, 4),
		RowsEventDecodeFunc: func(e *replication.RowsEvent, data []byte) error {
			at, err := e.DecodeHeader(data)
			if err != nil || !f.captures(string(e.Table.Schema), string(e.Table.Table)) || !decodable(e.Table) {
				return err
			}
			return e.DecodeData(at, data)
		},
	})
	defer context.AfterFunc(ctx, d.dial.hurry)()
	var err error
	if d.streamer, err = d.syncer.StartSync(gomysql.Position{Name: at.File, Pos: uint32(at.Pos)}); err != nil { //nolint:gosec // see enter
		d.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return d, nil
}

func (d *dump) close() {
	d.dial.hurry()
	d.syncer.Close()
}
