package generator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/schemas/spec"
)

type config struct {
	Topic    string     `json:"topic" doc:"The topic that events go to." spec:"required,importance=high"`
	Rate     float64    `json:"rate" doc:"Events per second; 0 makes them as fast as they are taken." default:"1" spec:"min=0,max=10000000,importance=high"`
	Count    int64      `json:"count" doc:"How many events in all; 0 never ends." default:"0" spec:"min=0,importance=high"`
	Template string     `json:"template" doc:"The events' data: JSON with placeholders such as {{n}} and {{random 1 100}}." default:"{\"n\":{{n}}}"`
	Type     string     `json:"type" doc:"The events' type." default:"millrace.generated"`
	Key      string     `json:"key" doc:"The events' key: text with the same placeholders, such as customer-{{random 1 10}}."`
	Padding  spec.Bytes `json:"payload.bytes" doc:"Fills the data up to at least this size with a field padding." default:"0" spec:"max=16MiB"`
	Seed     int64      `json:"seed" doc:"Another seed makes other random values." default:"1"`
}

// Check says what tags cannot.
func (c *config) Check() error {
	_, err := c.parse()
	return err
}

type templates struct{ data, key template }

func (c *config) parse() (t templates, err error) {
	var problems []spec.Problem
	add := func(path string, err error) {
		if err != nil {
			problems = append(problems, spec.Problem{Path: path, Msg: err.Error()})
		}
	}
	t.data, err = parseTemplate(c.Template)
	if err == nil && !spec.IsReference(c.Template) {
		err = t.data.check()
	}
	if err == nil && c.Padding > 0 && !strings.HasPrefix(strings.TrimSpace(c.Template), "{") {
		add("payload.bytes", errors.New("needs a template that makes a JSON object"))
	}
	add("template", err)
	t.key, err = parseTemplate(c.Key)
	for i := range t.key.parts {
		t.key.parts[i].inText = true
	}
	add("key", err)
	if problems != nil {
		return t, &spec.Error{Problems: problems}
	}
	return t, nil
}

// Plugin is the generator source.
func Plugin() connectors.Plugin {
	source := connectors.SourceOf(open)
	source.Guarantee = "Exactly once into the topic: the number reached is stored with the events."
	return connectors.Plugin{
		Name:    "generator",
		Summary: "Makes events up at a given rate: for demonstrations, load and tests.",
		Docs: "Events are numbered from 0; an event's id is `<connector>-<number>`, its source `/generator/<connector>`. Placeholders of `template` and `key`:\n\n" +
			"- `{{n}}`: the number\n- `{{random 1 100}}`, `{{float 1 100}}`: a whole number or one with two decimals, both bounds included\n- `{{bool}}`: true or false\n" +
			"- `{{oneof red green}}`: one of the words\n- `{{uuid}}`: a random UUID\n- `{{now}}`: the time it is made\n\n" +
			"Text gets its quotes where it does not stand inside a string already. All but `{{now}}` depend on number and `seed` alone, so what is made again is the same.\n",
		Source: source,
	}
}

// maxBatch bounds one answer.
const (
	maxBatch = 1000
	maxBytes = 4 << 20
)

// partition is the one the position is stored under.
const partition = `{"generator":"n"}`

type position struct {
	N int64 `json:"n"` // of the next event
}

type source struct {
	cfg    config
	t      templates
	now    func() time.Time
	source string
	prefix string // of ids
	n      int64
	begun  time.Time // when event number from was due
	from   int64
}

func open(_ context.Context, cfg config, env connectors.Env) (connectors.Source, error) {
	t, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	s := &source{cfg: cfg, t: t, now: env.Now, source: "/generator/" + env.Connector, prefix: env.Connector + "-"}
	if s.now == nil {
		s.now = time.Now
	}
	if stored, ok := env.Positions[partition]; ok {
		var p position
		if err := json.Unmarshal(stored, &p); err != nil || p.N < 0 {
			return nil, fmt.Errorf("the stored position %s is not one of this connector", stored)
		}
		s.n = p.N
	}
	s.begun, s.from = time.Now(), s.n
	return s, nil
}

// Read returns the events that are due, waiting for the first.
func (s *source) Read(ctx context.Context) (connectors.Produced, error) {
	if err := ctx.Err(); err != nil {
		return connectors.Produced{}, err
	}
	n := int64(maxBatch)
	if s.cfg.Count > 0 {
		n = min(n, s.cfg.Count-s.n)
	}
	if n <= 0 {
		return connectors.Produced{}, io.EOF
	}
	if s.cfg.Rate > 0 {
		due, err := s.due(ctx)
		if err != nil {
			return connectors.Produced{}, err
		}
		n = min(n, due)
	}
	p := connectors.Produced{Events: make([]connectors.Out, 0, n)}
	var buf []byte // all data of the answer
	for size := 0; int64(len(p.Events)) < n && size < maxBytes; {
		e, grown := s.event(buf)
		buf = grown
		size += len(e.Data)
		p.Events = append(p.Events, connectors.Out{Topic: s.cfg.Topic, Event: e})
		s.n++
	}
	b, err := json.Marshal(position{s.n})
	p.Positions = map[string]json.RawMessage{partition: b}
	return p, err
}

// Close has nothing to let go of.
func (s *source) Close() error { return nil }

// due waits until at least one event is due and returns how many are.
func (s *source) due(ctx context.Context) (int64, error) {
	for {
		elapsed := time.Since(s.begun)
		if n := int64(elapsed.Seconds()*s.cfg.Rate) + 1 - (s.n - s.from); n > 0 {
			if n > 2*maxBatch { // what was missed, as while the machine slept, is not made up for
				s.begun, s.from = time.Now(), s.n
			}
			return n, nil
		}
		next := time.Duration(float64(s.n-s.from) / s.cfg.Rate * float64(time.Second))
		timer := time.NewTimer(max(next-elapsed, time.Microsecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		case <-timer.C:
		}
	}
}

// event makes the next event; its data is appended to buf, which it returns too.
func (s *source) event(buf []byte) (event.Event, []byte) {
	r := rand.New(rand.NewPCG(uint64(s.cfg.Seed), uint64(s.n)))
	now := s.now()
	start := len(buf)
	buf = s.t.data.append(buf, s.n, r, now)
	if missing := int(s.cfg.Padding) - (len(buf) - start); missing > 0 {
		buf = pad(buf, start, missing)
	}
	e := event.Event{
		ID: s.prefix + strconv.FormatInt(s.n, 10), Source: s.source, Type: s.cfg.Type, Time: now, ContentType: "application/json",
		Data: buf[start:len(buf):len(buf)],
	}
	if s.cfg.Key != "" {
		e.Key = string(s.t.key.append(nil, s.n, r, now))
	}
	return e, buf
}

// pad puts a field of missing bytes before the closing brace of the object that
// begins at start.
func pad(buf []byte, start, missing int) []byte {
	field := `,"padding":"`
	buf = bytes.TrimRight(buf, " \t\r\n")
	buf = buf[:len(buf)-1]
	if len(bytes.TrimSpace(buf[start:])) == len("{") {
		field = field[1:]
	}
	buf = append(buf, field...)
	buf = append(buf, bytes.Repeat([]byte("x"), max(0, missing-len(field)-1))...)
	return append(buf, `"}`...)
}
