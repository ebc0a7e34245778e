package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"millrace/bus/event"
	"millrace/transforms/chunk"
	"millrace/transforms/embed"
)

// entry is one event for the store.
type entry struct {
	Document string    `json:"document"`
	At       place     `json:"at"`
	Group    string    `json:"group"` // the same in all chunks of one version
	Seq      int       `json:"seq"`
	Total    int       `json:"total"` // 0 deletes the document
	ID       string    `json:"id"`
	Text     string    `json:"text"`
	Title    string    `json:"title,omitempty"`
	Path     []string  `json:"titlePath,omitempty"`
	Metadata string    `json:"metadata"` // a JSON object
	Vector   []float32 `json:"vector,omitempty"`
}

// place orders the versions of a document: where its event's bytes stand, and,
// where that is not the topic it first stood in, the place there.
type place struct {
	Ref    string `json:"ref"` // "topic id/queue"
	Offset int64  `json:"offset"`
	First  string `json:"first,omitempty"` // "topic/queue"; "" = not known
	FirstO int64  `json:"firstOffset,omitempty"`
}

// compare is below 0 where p is older than q, 0 where they are one place, and
// above 0 where p is newer or the two stand in topics that have no common order.
func (p *place) compare(q *place) int {
	switch {
	case p.First != "" && p.First == q.First:
		return int(max(-1, min(1, p.FirstO-q.FirstO)))
	case p.Ref == q.Ref:
		return int(max(-1, min(1, p.Offset-q.Offset)))
	}
	return 1
}

func placeOf(r *event.Record) place {
	at := r.Origin
	p := place{Ref: strconv.FormatUint(at.Topic, 10) + "/" + strconv.Itoa(at.Queue), Offset: at.Offset}
	if at.IsZero() {
		p.Ref, p.Offset = r.Topic+"/"+strconv.Itoa(r.Queue), r.Offset
	}
	for i := range r.Ext {
		if r.Ext[i].Name != event.ExtOrigin {
			continue
		}
		if cut := strings.LastIndexByte(r.Ext[i].Value, '/'); cut > 0 {
			if n, err := strconv.ParseInt(r.Ext[i].Value[cut+1:], 10, 64); err == nil {
				p.First, p.FirstO = r.Ext[i].Value[:cut], n
			}
		}
	}
	return p
}

// chunkData is what is read of an event's data.
type chunkData struct {
	Document  string          `json:"document"`
	Title     string          `json:"title"`
	Format    string          `json:"format"`
	Version   string          `json:"version"`
	Seq       *int            `json:"seq"`
	Total     *int            `json:"total"`
	Text      *string         `json:"text"`
	TitlePath []string        `json:"titlePath"`
	Metadata  json.RawMessage `json:"metadata"`
	Embedding []float32       `json:"embedding"`
	Embedder  *embed.Info     `json:"embedder"`
}

// entryOf reads a record. Errors are for good.
func (s *sink) entryOf(r *event.Record) (entry, error) {
	e := entry{Document: chunk.NameOf(&r.Event), At: placeOf(r), ID: r.ID}
	if s.byID {
		e.Document = r.ID
	}
	if r.Tombstone() {
		return e, nil
	}
	if !r.JSON() {
		return e, fmt.Errorf("data is not JSON (%s): put the steps load, chunk and embed before the sink", r.ContentType)
	}
	var d chunkData
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return e, fmt.Errorf("data is no chunk: %w", err)
	}
	if d.Document != "" {
		e.Document = d.Document
	}
	e.Total = 1
	if d.Seq != nil || d.Total != nil {
		if d.Seq == nil || d.Total == nil || *d.Total < 0 || *d.Seq < 0 || *d.Seq >= max(1, *d.Total) {
			return e, errors.New("data.seq must be from 0 to below data.total: both come from a chunk step")
		}
		e.Seq, e.Total = *d.Seq, *d.Total
	}
	if e.Total == 0 {
		return e, nil
	}
	if e.Group = d.Version; e.Group == "" {
		e.Group = "of " + strconv.Itoa(e.Total)
	}
	if d.Text == nil {
		return e, errors.New("data.text is not there: put the steps load and chunk before the sink, or set data.text")
	}
	e.Text, e.Title, e.Path = *d.Text, d.Title, d.TitlePath
	var err error
	if e.Metadata, err = metadata(&d); err != nil {
		return e, err
	}
	if d.Embedder != nil && d.Embedder.Model != s.model {
		return e, fmt.Errorf("data.embedder.model: the chunk was embedded by %s, but the sink asks with %s: set the sink's embed to the same", d.Embedder.Model, s.model)
	}
	e.Vector = d.Embedding
	return e, finite(e.Vector)
}

// metadata joins title and format to a chunk's own metadata, whose members win.
func metadata(d *chunkData) (string, error) {
	m := map[string]any{}
	for key, value := range map[string]any{"title": d.Title, "format": d.Format} {
		if value != "" {
			m[key] = value
		}
	}
	if len(d.TitlePath) > 0 {
		m["titlePath"] = d.TitlePath
	}
	if len(d.Metadata) > 0 && !bytes.Equal(d.Metadata, []byte("null")) {
		dec := json.NewDecoder(bytes.NewReader(d.Metadata))
		dec.UseNumber()
		if err := dec.Decode(&m); err != nil {
			return "", errors.New("data.metadata is no object")
		}
	}
	b, err := json.Marshal(m)
	return string(b), err
}

func finite(vector []float32) error {
	for i, v := range vector {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("data.embedding[%d] is not finite", i)
		}
	}
	return nil
}

func zero(vector []float32) bool {
	for _, v := range vector {
		if v != 0 {
			return false
		}
	}
	return true
}
