package mysql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"millrace/connectors"
)

const (
	// maxEvents and maxBytes bound one answer.
	maxEvents = 1000
	maxBytes  = 4 << 20
	saveEvery = 5 * time.Second
	// linger is how long an answer waits for more events.
	linger = 5 * time.Millisecond
)

// batch is one answer being filled.
type batch struct {
	events []connectors.Out
	bytes  int
	limit  int // in events
}

// add lets fill append events.
func (b *batch) add(fill func([]connectors.Out) []connectors.Out) {
	n := len(b.events)
	b.events = fill(b.events)
	for i := n; i < len(b.events); i++ {
		e := &b.events[i].Event
		b.bytes += len(e.Data) + len(e.Key) + len(e.ID) + 200
	}
}

func (b *batch) full() bool { return len(b.events) >= b.limit || b.bytes >= maxBytes }

// source is one running task.
type source struct {
	conf   config
	logger *slog.Logger
	now    func() time.Time
	server *server
	filter *filter
	maker  *maker
	at     *position // reached; nil before the first
	lock   bool      // take a snapshot under a lock although the server can do without
	limit  int       // events in one answer
	// saveEvery is how often a position is stored that no event goes with.
	saveEvery time.Duration

	snapshot *snapshot // while one runs
	stream   *stream   // afterwards
	replica  uint32    // our id as a replica
	begun    bool
	ended    bool
}

// openSource connects, checks the server, and says where to begin.
func openSource(ctx context.Context, c config, env connectors.Env) (connectors.Source, error) {
	s := &source{conf: c, logger: env.Logger, now: env.Now, limit: maxEvents, saveEvery: saveEvery}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if err := s.open(ctx, &env); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *source) open(ctx context.Context, env *connectors.Env) error {
	var err error
	if s.filter, err = newFilter(&s.conf); err != nil {
		return err
	}
	if s.at, err = load(env, s.conf.Prefix); err != nil {
		return err
	}
	if s.server, err = connect(ctx, &s.conf); err != nil {
		return err
	}
	if err := s.server.check(ctx); err != nil {
		return err
	}
	s.maker = newMaker(&s.conf, s.server.flavor(), s.now)
	if s.replica, err = s.replicaID(ctx, env); err != nil {
		return err
	}
	if s.at != nil {
		return s.checkPlace(ctx)
	}
	// That we may read the binlog is better known before a long snapshot.
	at, err := s.server.current(ctx, s.server.db)
	if err != nil {
		return err
	}
	return s.tryDump(ctx, at)
}

// replicaID is what the config says, or a random id kept in the state.
func (s *source) replicaID(ctx context.Context, env *connectors.Env) (uint32, error) {
	const key = "replica-id"
	if s.conf.ServerID != 0 {
		return s.conf.ServerID, nil
	}
	if env.State != nil {
		stored, ok, err := env.State.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		if n, err := strconv.ParseUint(string(stored), 10, 32); ok && err == nil && n != 0 {
			return uint32(n), nil
		}
	}
	id := 1<<20 + rand.Uint32N(1<<32-1-1<<20) //nolint:gosec // no secret
	if env.State != nil {
		env.State.Put(key, []byte(strconv.FormatUint(uint64(id), 10)))
	}
	return id, nil
}

// checkPlace checks that the server still has the binlog where the stream goes on.
func (s *source) checkPlace(ctx context.Context) error {
	var gone string
	if s.at.Server != "" && s.at.Server != s.server.identity {
		gone = fmt.Sprintf("the stored position %s:%d is of server %s, but %s is server %s, whose binlog has other files", s.at.File, s.at.Pos, s.at.Server, s.server.addr, s.server.identity)
	} else {
		files, err := s.server.logs(ctx)
		if err != nil {
			return err
		}
		gone = s.server.enter(&s.at.place, files)
	}
	if gone == "" {
		return nil
	}
	if s.conf.SnapshotMode != modeWhenNeeded {
		return fmt.Errorf("%s, so changes in between are lost: set snapshot.mode to when_needed for a new snapshot, or delete the connector's offsets", gone)
	}
	s.logger.Warn("a new snapshot is needed", "reason", gone)
	s.at = nil
	return nil
}

// enter makes a place one at which a dump may begin; gone says why there is none.
func (s *server) enter(at *place, files []logFile) (gone string) {
	for i, f := range files {
		if f.name != at.File {
			continue
		}
		switch {
		case at.Pos > f.size:
			return fmt.Sprintf("the stored position %s:%d is behind the file's end, %d", at.File, at.Pos, f.size)
		case at.Pos > 1<<32-1 && i+1 < len(files) && at.Pos == f.size: // a dump's position has 32 bits
			*at = place{File: files[i+1].name, Pos: 4}
		case at.Pos > 1<<32-1:
			return fmt.Sprintf("the stored position %s:%d is beyond 4 GiB, where no dump can begin", at.File, at.Pos)
		}
		return ""
	}
	first := "none"
	if len(files) > 0 {
		first = files[0].name
	}
	return fmt.Sprintf("the server no longer has the binlog file %s of the stored position %s:%d (the first it has is %s)", at.File, at.File, at.Pos, first)
}

// Read answers with the snapshot's rows first, then with changes.
func (s *source) Read(ctx context.Context) (connectors.Produced, error) {
	if err := ctx.Err(); err != nil {
		return connectors.Produced{}, err
	}
	if s.ended {
		return connectors.Produced{}, io.EOF
	}
	p, err := s.read(ctx)
	if err != nil && ctx.Err() != nil {
		return connectors.Produced{}, ctx.Err()
	}
	return p, err
}

func (s *source) read(ctx context.Context) (connectors.Produced, error) {
	b := &batch{limit: s.limit}
	if !s.begun {
		if stored, err := s.begin(ctx); err != nil || stored {
			return s.answer(b, err)
		}
	}
	if s.snapshot != nil {
		return s.readSnapshot(ctx, b)
	}
	if s.ended {
		return connectors.Produced{}, io.EOF
	}
	if s.stream == nil {
		if err := s.startStream(ctx); err != nil {
			return connectors.Produced{}, err
		}
	}
	err := s.stream.read(ctx, b)
	return s.answer(b, err)
}

// begin decides on snapshot or stream. stored says that where the stream starts
// must be stored first.
func (s *source) begin(ctx context.Context) (stored bool, err error) {
	s.begun = true
	switch {
	case s.at != nil && (s.at.Snapshot == nil || !s.at.Snapshot.Running):
		s.ended = s.conf.SnapshotMode == modeInitialOnly
		return false, nil
	case s.at == nil && s.conf.SnapshotMode == modeNoData:
		at, err := s.server.current(ctx, s.server.db)
		s.at = &position{Server: s.server.identity, place: at}
		return true, err
	}
	return false, s.startSnapshot(ctx)
}

func (s *source) readSnapshot(ctx context.Context, b *batch) (connectors.Produced, error) {
	b.limit = min(s.conf.FetchSize, s.limit)
	defer context.AfterFunc(ctx, s.server.dial.hurry)() // a query lives longer than one Read
	done, err := s.snapshot.read(context.WithoutCancel(ctx), b, s.at.Snapshot)
	if err != nil {
		return connectors.Produced{}, err
	}
	if done {
		s.at.Snapshot.Running, s.at.Snapshot.mark = false, mark{}
		s.at.passed()
		s.logger.Info("snapshot done", "file", s.at.File, "pos", s.at.Pos)
		if err := s.endSnapshot(); err != nil {
			return connectors.Produced{}, err
		}
		s.ended = s.conf.SnapshotMode == modeInitialOnly
	}
	return s.answer(b, nil)
}

func (s *source) endSnapshot() error {
	if s.snapshot == nil {
		return nil
	}
	err := s.snapshot.close()
	s.snapshot = nil
	return err
}

// answer goes with the position reached.
func (s *source) answer(b *batch, err error) (connectors.Produced, error) {
	if err != nil {
		return connectors.Produced{}, err
	}
	positions, err := s.at.saved(s.conf.Prefix)
	return connectors.Produced{Events: b.events, Positions: positions}, err
}

// Close ends all connections. What they answer to a goodbye does not matter, so it
// never fails.
func (s *source) Close() error {
	if s.stream != nil {
		s.stream.dump.close()
		s.stream = nil
	}
	if s.server != nil {
		s.server.dial.hurry()
		if s.snapshot != nil {
			_ = s.endSnapshot()
		}
		_ = s.server.db.Close()
		s.server = nil
	}
	return nil
}

// digest tells long texts apart.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
