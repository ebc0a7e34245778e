package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/formats"
)

// bufferBytes is how much is kept until a flush; beyond it Write publishes by itself.
const bufferBytes = 8 << 20

// sink appends events to files. What Write takes is kept in memory; publishing
// appends it and stores length and offsets beside the file.
type sink struct {
	cfg       sinkConfig
	connector string
	now       func() time.Time
	log       *slog.Logger
	outputs   map[string]*output          // by path
	loaded    map[string]map[string]int64 // sidecar → offsets of this connector's slots when the sink was opened
}

func openSink(_ context.Context, cfg sinkConfig, env connectors.Env) (connectors.Sink, error) {
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, err
	}
	cfg.Path = path
	s := &sink{
		cfg: cfg, connector: env.Connector, now: env.Now, log: env.Logger,
		outputs: map[string]*output{}, loaded: map[string]map[string]int64{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, connectors.Permanent(pathProblem("is a directory: give the file's name too, such as " + path + "/${topic}.ndjson"))
	}
	found, err := filepath.Glob(cfg.sidecars())
	if err != nil {
		return nil, err
	}
	for _, sidecar := range found {
		st, _, err := loadState(sidecar)
		if err != nil {
			return nil, err
		}
		s.loaded[sidecar] = st.Offsets[s.connector]
	}
	return s, nil
}

// Offsets are those stored with the data when the sink was opened.
func (s *sink) Offsets(context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	for _, offsets := range s.loaded {
		for slot, next := range offsets {
			out[slot] = max(out[slot], next)
		}
	}
	return out, nil
}

// Write takes the records' lines into memory. Only csv refuses any.
func (s *sink) Write(ctx context.Context, records []event.Record) error {
	var failed map[int]error
	var o *output
	for i := range records {
		r := &records[i]
		if i == 0 || r.Queue != records[i-1].Queue || r.Topic != records[i-1].Topic {
			var err error
			if o, err = s.output(ctx, r.Topic, r.Queue); err != nil {
				return err
			}
			o.begin(r.Offset)
		}
		err := o.add(ctx, r)
		var fault *faultError
		switch {
		case errors.As(err, &fault):
			return fault.err
		case err != nil:
			if failed == nil {
				failed = map[int]error{}
			}
			failed[i] = connectors.Permanent(err)
		}
		o.passed(r.Offset, err != nil)
		if len(o.buf) > bufferBytes {
			if err := o.publish(ctx); err != nil {
				return err
			}
		}
	}
	if failed != nil {
		return &connectors.BatchError{Failed: failed}
	}
	return nil
}

// Flush publishes what all files have waiting.
func (s *sink) Flush(ctx context.Context) error {
	for _, path := range slices.Sorted(maps.Keys(s.outputs)) {
		if err := s.outputs[path].publish(ctx); err != nil {
			return err
		}
		for _, slot := range s.outputs[path].slots {
			slot.flushed = true
		}
	}
	return nil
}

// Close forgets what was not flushed.
func (s *sink) Close() error {
	var errs []error
	for _, o := range s.outputs {
		errs = append(errs, o.close())
	}
	return errors.Join(errs...)
}

// output is the file of a queue, with the queue as its current slot.
func (s *sink) output(ctx context.Context, topic string, queue int) (*output, error) {
	path := s.cfg.pathFor(topic, queue)
	o := s.outputs[path]
	if o == nil {
		o = &output{s: s, path: path, sidecar: sidecarPath(path), delimiter: formats.Delimiter(s.cfg.Delimiter, path), slots: map[string]*slotState{}}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		s.outputs[path] = o
	}
	name := topic + "/" + strconv.Itoa(queue)
	o.slot = o.slots[name]
	if o.slot == nil {
		base, known := s.loaded[o.sidecar][name]
		if !known {
			base = -1
		}
		o.slot = &slotState{base: base, next: -1, held: -1}
		o.slots[name] = o.slot
	}
	if s.cfg.Format == formats.CSV && o.columns == nil {
		return o, o.loadColumns(ctx)
	}
	return o, nil
}

// slotState is how far one queue has come in a file.
type slotState struct {
	base int64 // stored beside the file, as far as this sink knows; -1 = nothing
	next int64 // to be stored with the next publishing; -1 = nothing
	// held is the first offset that was refused and may not be settled yet: what is
	// stored does not pass it until the runtime, after a flush, goes on behind it.
	held    int64
	flushed bool // since held was set
}

// begin notes that the runtime writes from an offset on.
func (o *output) begin(offset int64) {
	if s := o.slot; s.held >= 0 && s.flushed && offset > s.held {
		s.held = -1
	}
}

func (o *output) passed(offset int64, refused bool) {
	s := o.slot
	s.next = max(s.next, offset+1)
	if refused && (s.held < 0 || offset < s.held) {
		s.held, s.flushed = offset, false
	}
}

// store is what is to be stored of the slot, or -1.
func (s *slotState) store() int64 {
	if s.held >= 0 {
		return max(s.base, min(s.next, s.held))
	}
	return s.next
}

// faultError is an error that is not the record's.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }

func (o *output) fault(err error) error {
	return &faultError{fmt.Errorf("%s: %w", o.path, err)}
}
