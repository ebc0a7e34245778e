package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

// call is invoke for small requests.
func call[A any, Q any](ctx context.Context, c *Client, method string, q Q) (A, error) {
	a, err := invoke[jsonOf[A]](ctx, c, method, same(&jsonOf[Q]{V: q}))
	if err != nil {
		var zero A
		return zero, err
	}
	return a.V, nil
}

// do is call without an answer.
func do[Q any](ctx context.Context, c *Client, method string, q Q) error {
	_, err := invoke[empty](ctx, c, method, same(&jsonOf[Q]{V: q}))
	return err
}

// Topics implements bus.Client.
func (c *Client) Topics(ctx context.Context) ([]bus.Topic, error) {
	a, err := invoke[jsonOf[[]topicBody]](ctx, c, "Topics", same(&empty{}))
	if err != nil {
		return nil, err
	}
	out := make([]bus.Topic, len(a.V))
	for i := range a.V {
		out[i] = a.V[i].topic()
	}
	return out, nil
}

// Topic implements bus.Client.
func (c *Client) Topic(ctx context.Context, name string) (bus.Topic, error) {
	b, err := call[topicBody](ctx, c, "Topic", topicName{Name: name})
	return b.topic(), err
}

// CreateTopic implements bus.Client.
func (c *Client) CreateTopic(ctx context.Context, t bus.Topic) (bus.Topic, error) {
	q := bodyOf(t)
	q.Once = newID()
	b, err := call[topicBody](ctx, c, "CreateTopic", q)
	return b.topic(), err
}

// DeleteTopic implements bus.Client.
func (c *Client) DeleteTopic(ctx context.Context, name string, force bool) error {
	return do(ctx, c, "DeleteTopic", topicName{Name: name, Force: force, Once: newID()})
}

// Append implements bus.Client. A batch without an ID is given one, so that a
// try whose answer was lost is repeated safely. Invariant 2. If ctx ends before
// an answer comes, the error is bus.ErrUnknown as well as the context's.
func (c *Client) Append(ctx context.Context, b bus.Batch) ([]bus.Appended, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	if b.ID == "" {
		b.ID = newID()
	}
	items := 0
	for i := range b.Writes {
		items += len(b.Writes[i].Events) + len(b.Writes[i].Links)
	}
	if items > maxItems {
		return nil, &bus.Error{Kind: bus.ErrTooLarge, Thing: "batch", Msg: fmt.Sprintf("holds %d events and links, more than %d: split it", items, maxItems)}
	}
	a, err := invoke[appendAnswer](ctx, c, "Append", same(&appendRequest{batch: b}))
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("append: %w: %w", bus.ErrUnknown, err)
		}
		return nil, err
	}
	at, ok := a.appended(items)
	if !ok {
		return nil, fmt.Errorf("append: %w: the answer does not name %d places: %w", bus.ErrUnknown, items, errWire)
	}
	return at, nil
}

// Read implements bus.Client.
func (c *Client) Read(ctx context.Context, from []bus.Cursor, limit bus.Limit) ([]event.Record, error) {
	end := time.Now().Add(limit.Wait)
	a, err := invoke[records](ctx, c, "Read", func() message {
		q := &readRequest{from: from, max: limit}
		if limit.Wait > 0 { // what earlier tries waited counts
			q.max.Wait = time.Until(end)
		}
		return q
	})
	if err != nil {
		return nil, err
	}
	return a.recs, nil
}

// Bounds implements bus.Client.
func (c *Client) Bounds(ctx context.Context, topic string) ([]bus.Bound, error) {
	return call[[]bus.Bound](ctx, c, "Bounds", topicName{Name: topic})
}

// OffsetAt implements bus.Client.
func (c *Client) OffsetAt(ctx context.Context, topic string, queue int, t time.Time) (int64, error) {
	return call[int64](ctx, c, "OffsetAt", offsetAtRequest{Topic: topic, Queue: queue, Time: t})
}

// Scan implements bus.Client. What does not fit one message is fetched in
// several.
func (c *Client) Scan(ctx context.Context, topic, prefix, after string, limit int) ([]event.Record, error) {
	if limit <= 0 {
		limit = 1000
	}
	var out []event.Record
	for {
		a, err := invoke[records](ctx, c, "Scan", same(&scanRequest{topic, prefix, after, limit - len(out)}))
		if err != nil {
			return nil, err
		}
		out = append(out, a.recs...)
		if !a.more || len(a.recs) == 0 || len(out) >= limit {
			return out, nil
		}
		after = out[len(out)-1].Key
	}
}

// Changed implements bus.Client.
func (c *Client) Changed(ctx context.Context, topic string, seen int64) (int64, error) {
	return call[int64](ctx, c, "Changed", changedRequest{Topic: topic, Seen: seen})
}

// Groups implements bus.Client.
func (c *Client) Groups(ctx context.Context) ([]bus.GroupInfo, error) {
	a, err := invoke[jsonOf[[]bus.GroupInfo]](ctx, c, "Groups", same(&empty{}))
	if err != nil {
		return nil, err
	}
	return a.V, nil
}

// ResetGroup implements bus.Client.
func (c *Client) ResetGroup(ctx context.Context, group string, to []bus.Cursor) error {
	return do(ctx, c, "ResetGroup", groupRequest{Group: group, To: to, Once: newID()})
}

// Checkpoint implements bus.Client.
func (c *Client) Checkpoint(ctx context.Context, group, slot string) (bus.Saved, error) {
	return call[bus.Saved](ctx, c, "Checkpoint", groupRequest{Group: group, Slot: slot})
}

// Positions implements bus.Client.
func (c *Client) Positions(ctx context.Context, group string) (map[string]json.RawMessage, error) {
	a, err := invoke[positions](ctx, c, "Positions", same(&jsonOf[groupRequest]{V: groupRequest{Group: group}}))
	if err != nil {
		return nil, err
	}
	return a.p, nil
}

// ForgetGroup implements bus.Client.
func (c *Client) ForgetGroup(ctx context.Context, group string) error {
	return do(ctx, c, "ForgetGroup", groupRequest{Group: group, Once: newID()})
}

// Join implements bus.Client.
func (c *Client) Join(ctx context.Context, group string, slots []string) (bus.Member, error) {
	a, err := call[memberRequest](ctx, c, "Join", groupRequest{Group: group, Slots: slots, Once: newID()})
	if err != nil {
		return nil, err
	}
	m := &member{c: c, id: a.Member, turn: make(chan struct{}, 1)}
	m.turn <- struct{}{}
	return m, nil
}

// member is a bus.Member whose lease the server keeps.
type member struct {
	c    *Client
	id   string
	turn chan struct{} // holds one token: whoever has it may use ack
	ack  uint64        // number of the last answer that arrived
}

// Slots implements bus.Member.
func (m *member) Slots(ctx context.Context) ([]bus.Slot, error) {
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var sent time.Time
	a, err := invoke[jsonOf[slotsAnswer]](ctx, m.c, "Slots", func() message {
		sent = time.Now()
		return &jsonOf[memberRequest]{V: memberRequest{Member: m.id, Ack: m.ack}}
	})
	if err != nil {
		return nil, err
	}
	m.ack = a.V.Seq
	out := make([]bus.Slot, len(a.V.Slots))
	for i, s := range a.V.Slots {
		// Invariant 11: the server counts from when the request came, this side from
		// before it left, on its own monotonic clock: never later than the true end.
		out[i] = bus.Slot{Name: s.Name, Epoch: s.Epoch, Until: sent.Add(time.Duration(s.Left))}
	}
	return out, nil
}

// Leave implements bus.Member.
func (m *member) Leave(ctx context.Context) error {
	err := do(ctx, m.c, "Leave", memberRequest{Member: m.id})
	if errors.Is(err, bus.ErrNoMember) {
		return nil
	}
	return err
}
