package s3

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"millrace/bus/event"
	"millrace/connectors"
)

// maxGone bounds how many deletions one listing notes; a further listing finds
// the rest.
const maxGone = 10_000

// known is what is remembered of an object, by "<bucket>/<key>".
type known struct {
	Etag string `json:"e"`
	Size int64  `json:"s"`
	Era  string `json:"a"`
	// Partial: only a part of some version was read, so every version is new.
	Partial bool `json:"p,omitempty"`
}

// pass is one listing, merged with what is known of an earlier one.
type pass struct {
	cancel  context.CancelFunc // ends both sequences
	ended   func() error       // why they were ended, nil = they were not
	objects puller[minio.ObjectInfo, struct{}]
	entries puller[connectors.Entry, error]
	gone    []connectors.Entry // known, but not listed
	more    bool               // there were more of them than gone may hold
	whole   bool               // the listing came to its end
	began   time.Time
}

// puller is a sequence with a look at its next value.
type puller[K, V any] struct {
	pull func() (K, V, bool)
	stop func()
	k    K
	v    V
	have bool
	ok   bool
}

// peek returns the next value without taking it.
func (p *puller[K, V]) peek() (K, V, bool) {
	if !p.have {
		p.k, p.v, p.ok = p.pull()
		p.have = true
	}
	return p.k, p.v, p.ok
}

// take lets the next peek go on.
func (p *puller[K, V]) take() { p.have = !p.ok }

func (s *source) newPass(ctx context.Context) *pass {
	// Both sequences outlive one read. Each read ends them when it is told to stop.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &pass{cancel: cancel, ended: ctx.Err, began: time.Now()}
	owner := false
	listed := s.client.ListObjectsIter(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: s.cfg.Prefix, Recursive: true, FetchOwner: &owner})
	p.objects.pull, p.objects.stop = iter.Pull2(func(yield func(minio.ObjectInfo, struct{}) bool) {
		for o := range listed {
			if !yield(o, struct{}{}) {
				return
			}
		}
	})
	p.entries.pull, p.entries.stop = iter.Pull2(s.state.Scan(ctx, s.stateKey(s.cfg.Prefix)))
	return p
}

func (s *source) stateKey(key string) string { return s.cfg.Bucket + "/" + key }

// drop gives the listing up.
func (s *source) drop() {
	if s.pass != nil {
		s.pass.cancel()
		s.pass.objects.stop()
		s.pass.entries.stop()
		s.pass = nil
	}
}

// advance goes on with the listing until it finds an object to read, the answer is
// full, or it ends.
func (s *source) advance(ctx context.Context, b *batch) error {
	p := s.pass
	defer context.AfterFunc(ctx, p.cancel)()
	for !p.whole {
		if b.full() {
			return nil
		}
		found, err := s.compare(ctx, p)
		if err == nil {
			err = p.ended() // a listing that was ended is no whole one
		}
		if err != nil {
			s.drop()
			return err
		}
		if found != nil {
			s.object = found
			return nil
		}
	}
	return s.deletions(ctx, p, b)
}

// compare takes one object of the listing, and returns it if it is to be read.
func (s *source) compare(ctx context.Context, p *pass) (*object, error) {
	o, _, more := p.objects.peek()
	if more && o.Err != nil {
		return nil, s.explain(o.Err)
	}
	// Entries before it were not listed.
	for {
		e, err, ok := p.entries.peek()
		if ok && err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
		if !ok || more && e.Key >= s.stateKey(o.Key) {
			break
		}
		if len(p.gone) < maxGone {
			p.gone = append(p.gone, e)
		} else {
			p.more = true
		}
		p.entries.take()
	}
	if !more {
		p.whole = true
		return nil, nil
	}
	p.objects.take()
	var value []byte
	if e, _, ok := p.entries.peek(); ok && e.Key == s.stateKey(o.Key) {
		value = e.Value
		p.entries.take()
	} else {
		// Not every store lists in the order of keys, so what the merge did not meet
		// is looked up.
		var err error
		if value, _, err = s.state.Get(ctx, s.stateKey(o.Key)); err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
	}
	if s.unchanged(value, &o) || strings.HasSuffix(o.Key, "/") && o.Size == 0 { // a folder's place holder
		return nil, nil
	}
	return &object{Key: o.Key, Etag: o.ETag, Size: o.Size, Modified: o.LastModified.UTC()}, nil
}

// unchanged reports whether value, what is known of o, says that this version of
// it was read.
func (s *source) unchanged(value []byte, o *minio.ObjectInfo) bool {
	var k known
	return value != nil && json.Unmarshal(value, &k) == nil && !k.Partial && k.Era == s.era && k.Etag == o.ETag && k.Size == o.Size
}

// deletions publishes the deletion of objects that a whole listing lacked, and
// that are not there when asked for one by one. Then the listing is done with.
func (s *source) deletions(ctx context.Context, p *pass, b *batch) error {
	for ; len(p.gone) > 0; p.gone = p.gone[1:] {
		if b.full() {
			return nil
		}
		e := &p.gone[0]
		key := strings.TrimPrefix(e.Key, s.cfg.Bucket+"/")
		if _, err := s.client.StatObject(ctx, s.cfg.Bucket, key, minio.StatObjectOptions{}); err == nil {
			continue // it came back, or the listing lacked it all the same
		} else if !isGone(err) {
			return s.explain(err)
		}
		var k known
		_ = json.Unmarshal(e.Value, &k) // the etag only tells ids apart
		b.add(&event.Event{
			ID: s.cfg.Bucket + "/" + key + "@" + k.Etag + ":deleted", Source: sourceOf(s.cfg.Bucket), Type: typeDeleted, Subject: key, Key: key,
			Time: time.Now().UTC(),
		})
		s.state.Delete(e.Key)
		b.marked()
	}
	took := time.Since(p.began)
	s.next = time.Now().Add(max(s.cfg.Poll, 20*took))
	switch {
	case p.more:
		s.next = time.Time{}
	case s.again:
		s.next = time.Now().Add(s.cfg.Poll)
	case !s.cfg.Follow:
		s.ended = true
	}
	s.again = false
	s.drop()
	return nil
}
