package s3

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"

	"millrace/connectors/formats"
)

// object is one version of an object on its way into events. What is exported is
// stored in the position.
type object struct {
	Key      string    `json:"key"`
	Etag     string    `json:"etag"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Offset   int64     `json:"offset"` // of the next line, in the decompressed bytes
	Line     int64     `json:"line"`   // lines before it
	Gzip     bool      `json:"gzip,omitempty"`

	noted   bool // the state says that it was begun
	body    io.ReadCloser
	raw     *remembering // what body reads from
	cancel  context.CancelFunc
	content string // content type as stored
	records formats.Records
	rest    []byte // was read and not used, beginning at Offset
	chunk   int    // bytes to ask for next
	eof     bool   // rest is all there is
	failed  error  // what comes after rest
}

// remembering tells an error of the network from one of what is read from it.
type remembering struct {
	io.ReadCloser
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// dataError says that an object's bytes are not what they should be.
type dataError struct{ error }

// shut lets go of the connection. The object can be opened again where it stands.
func (o *object) shut() {
	if o.body != nil {
		o.cancel()
		_ = o.body.Close() // it was only read
		o.body, o.rest, o.eof, o.failed = nil, nil, false, nil
	}
}

// get opens the object's version at an offset of its stored bytes.
func (s *source) get(ctx context.Context, o *object, at int64) (io.ReadCloser, minio.ObjectInfo, error) {
	var opts minio.GetObjectOptions
	if o.Etag != "" {
		if err := opts.SetMatchETag(o.Etag); err != nil {
			return nil, minio.ObjectInfo{}, err
		}
	}
	if at > 0 {
		if err := opts.SetRange(at, 0); err != nil {
			return nil, minio.ObjectInfo{}, err
		}
	}
	body, info, _, err := s.client.GetObject(ctx, s.cfg.Bucket, o.Key, opts)
	return body, info, err
}

// open begins to read at o.Offset. The connection outlives one read of the source;
// each ends it when it is told to stop.
func (s *source) open(ctx context.Context, o *object) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	o.cancel = cancel
	at := o.Offset
	if o.Gzip {
		at = 0 // a compressed stream is read from its beginning
	}
	if at > 0 && at >= o.Size {
		o.body, o.raw = io.NopCloser(bytes.NewReader(nil)), &remembering{}
		return nil
	}
	body, info, err := s.get(inner, o, at)
	if err != nil {
		cancel()
		return err
	}
	o.content = info.ContentType
	o.raw = &remembering{ReadCloser: body}
	if o.body, err = o.plain(o.raw); err != nil {
		cancel()
		_ = body.Close()
		o.body = nil
		return err
	}
	if o.Gzip {
		if _, err := io.CopyN(io.Discard, o.body, o.Offset); err != nil {
			err = o.judge(err)
			o.shut()
			return err
		}
	}
	return nil
}

// plain decompresses what begins as gzip does.
func (o *object) plain(r io.ReadCloser) (io.ReadCloser, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	if o.Offset == 0 && !o.Gzip {
		magic, err := br.Peek(2)
		if err != nil && err != io.EOF {
			return nil, err
		}
		o.Gzip = bytes.Equal(magic, []byte{0x1f, 0x8b})
	}
	if !o.Gzip {
		return struct {
			io.Reader
			io.Closer
		}{br, r}, nil
	}
	z, err := gzip.NewReader(br)
	if err != nil {
		return nil, o.judge(err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, r}, nil
}

// judge tells whether an error of reading is the network's or the data's.
func (o *object) judge(err error) error {
	if err == nil || o.raw.err != nil {
		return errors.Join(err, o.raw.err)
	}
	if o.Gzip {
		return dataError{fmt.Errorf("gzip: %w", err)}
	}
	return err
}

// readObject makes events of the object under way until the answer is full or the
// object was read to its end.
func (s *source) readObject(ctx context.Context, b *batch) error {
	o := s.object
	err := error(nil)
	document := s.cfg.formatOf(o.Key) == formats.Document
	if document && o.Size > int64(s.cfg.MaxDocument) {
		err = dataError{errTooLarge(s.cfg.MaxDocument)}
	} else if o.body == nil {
		err = s.open(ctx, o)
	}
	if err == nil {
		stop := context.AfterFunc(ctx, o.cancel)
		if document {
			err = s.readDocument(o, b)
		} else {
			err = s.readLines(ctx, o, b)
		}
		stop()
	}
	_, data := errors.AsType[dataError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		o.shut()
		return ctx.Err()
	case isGone(err), isOther(err):
		s.log.Info("object changed while it was read; the next listing tells how", "key", o.Key)
		o.shut()
		s.object, s.again = nil, true
		return nil
	case data, isRefused(err):
		b.fail("s3://"+s.cfg.Bucket+"/"+o.Key, nil, err)
		return s.done(o, b)
	default:
		o.shut()
		return s.explain(err)
	}
}

// done notes that the object was read to its end.
func (s *source) done(o *object, b *batch) error {
	o.shut()
	s.object = nil
	return s.note(o, b, false)
}

// begun notes that a part of the object was read, so that its deletion will be
// seen, and another version of it too.
func (s *source) begun(o *object, b *batch) error {
	if o.noted {
		return nil
	}
	o.noted = true
	return s.note(o, b, true)
}

func (s *source) note(o *object, b *batch, partial bool) error {
	raw, err := json.Marshal(known{Etag: o.Etag, Size: o.Size, Era: s.era, Partial: partial})
	if err != nil {
		return err
	}
	s.state.Put(s.stateKey(o.Key), raw)
	b.marked()
	return nil
}

func sourceOf(bucket string) string { return "/s3/" + url.PathEscape(bucket) }
