package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"millrace/bus/event"
	"millrace/connectors"
)

// What one answer holds at most, and how long it is gathered.
const (
	maxEvents = 1000
	maxBytes  = 4 << 20
	maxWait   = time.Second
)

// source lists and reads. Between two reads it may hold an object and a listing
// half done; both are given up when their context ends.
type source struct {
	cfg       config
	client    minio.Core
	idle      func() // closes connections that are not in use
	state     connectors.State
	log       *slog.Logger
	partition string // of the stored position
	era       string // of entries in state; older ones count as unknown

	object *object   // being read; nil = none
	pass   *pass     // the listing under way; nil = none
	next   time.Time // when the next listing is due
	again  bool      // an object changed or went while it was read: list once more
	ended  bool
}

// position is what is stored: the era, and the object being read.
type position struct {
	Era    string  `json:"era"`
	Object *object `json:"object,omitempty"`
}

func open(_ context.Context, cfg config, env connectors.Env) (connectors.Source, error) {
	if env.State == nil {
		return nil, errors.New("s3: the source needs a state to remember objects in")
	}
	client, idle, err := connect(&cfg)
	if err != nil {
		return nil, err
	}
	p, err := json.Marshal(map[string]string{"bucket": cfg.Bucket, "prefix": cfg.Prefix})
	if err != nil {
		return nil, err
	}
	s := &source{cfg: cfg, client: client, idle: idle, state: env.State, log: env.Logger, partition: string(p)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var stored position
	if raw := env.Positions[s.partition]; raw != nil && json.Unmarshal(raw, &stored) == nil && stored.Era != "" {
		s.era, s.object = stored.Era, stored.Object
	} else {
		s.era = strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	return s, nil
}

// connect makes the client, and what closes its idle connections. It sends nothing
// yet.
func connect(cfg *config) (minio.Core, func(), error) {
	host, secure := "s3."+cfg.Region+".amazonaws.com", true
	if cfg.StoreURL != "" {
		u, err := url.Parse(cfg.StoreURL)
		if err != nil {
			return minio.Core{}, nil, fmt.Errorf("store.url: %w", err)
		}
		host, secure = u.Host, u.Scheme == "https"
	}
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return minio.Core{}, nil, err
	}
	lookup := minio.BucketLookupAuto
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	creds := credentials.NewStaticV4(cfg.AccessKey.Reveal(), cfg.SecretKey.Reveal(), "")
	if cfg.AccessKey == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		})
	}
	// Few retries inside: the runtime opens the source again, and says why.
	core, err := minio.NewCore(host, &minio.Options{
		Creds: creds, Secure: secure, Region: cfg.Region, BucketLookup: lookup, Transport: transport, MaxRetries: 3,
	})
	if err != nil {
		return minio.Core{}, nil, fmt.Errorf("store.url: %w", err)
	}
	return *core, transport.CloseIdleConnections, nil
}

// Read goes on in the object under way, or with what the listing finds next.
func (s *source) Read(ctx context.Context) (connectors.Produced, error) {
	b := &batch{topic: s.cfg.Topic}
	for {
		if err := ctx.Err(); err != nil {
			return connectors.Produced{}, err
		}
		idle, err := s.step(ctx, b)
		if !b.empty() && (err != nil || idle || s.ended || b.full()) {
			// What failed is met again by the next read.
			return s.finish(b)
		}
		switch {
		case err != nil:
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return connectors.Produced{}, err
		case s.ended:
			return connectors.Produced{}, io.EOF
		case idle:
			if err := wait(ctx, time.Until(s.next)); err != nil {
				return connectors.Produced{}, err
			}
		}
	}
}

// step reads the object under way or takes the next one. It is idle when a listing
// has ended and the next is not due.
func (s *source) step(ctx context.Context, b *batch) (idle bool, err error) {
	if s.object != nil {
		return false, s.readObject(ctx, b)
	}
	if s.pass == nil {
		if s.ended || time.Now().Before(s.next) {
			return true, nil
		}
		s.pass = s.newPass(ctx)
	}
	return false, s.advance(ctx, b)
}

// finish adds the position to an answer.
func (s *source) finish(b *batch) (connectors.Produced, error) {
	if s.object != nil {
		if err := s.begun(s.object, b); err != nil {
			return connectors.Produced{}, err
		}
	}
	raw, err := json.Marshal(position{Era: s.era, Object: s.object})
	if err != nil {
		return connectors.Produced{}, err
	}
	b.produced.Positions = map[string]json.RawMessage{s.partition: raw}
	return b.produced, nil
}

// Close gives up what is under way.
func (s *source) Close() error {
	if s.object != nil {
		s.object.shut()
	}
	s.drop()
	s.idle()
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// batch is one answer in the making.
type batch struct {
	produced connectors.Produced
	topic    string
	bytes    int
	marks    int // entries of the state that changed
	began    time.Time
}

func (b *batch) full() bool {
	return len(b.produced.Events)+len(b.produced.Failed)+b.marks >= maxEvents || b.bytes >= maxBytes ||
		!b.began.IsZero() && time.Since(b.began) > maxWait
}

func (b *batch) empty() bool {
	return len(b.produced.Events)+len(b.produced.Failed)+b.marks == 0
}

func (b *batch) start() {
	if b.began.IsZero() {
		b.began = time.Now()
	}
}

func (b *batch) add(e *event.Event) {
	b.start()
	if e.Data == nil && e.Type != typeDeleted {
		e.Data = []byte{}
	}
	b.produced.Events = append(b.produced.Events, connectors.Out{Topic: b.topic, Event: *e})
	b.bytes += len(e.Data)
}

func (b *batch) fail(origin string, raw []byte, err error) {
	b.start()
	b.produced.Failed = append(b.produced.Failed, connectors.BadInput{Origin: origin, Raw: raw, Err: err})
	b.bytes += len(raw)
}

// marked notes that an entry of the state joins this answer.
func (b *batch) marked() {
	b.start()
	b.marks++
}
