package elasticsearch_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// double stands in for a server: no real one can be had from the registries that
// tests install from, but by scripts/test-peers. It does what the bulk API's
// documentation says of index and delete: order, versions of type external,
// tombstones that are remembered, a mapping that does not fit, and answers by item.
type double struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	docs     map[document]*doc
	seq      int
	requests []int // operations in each request that was carried out
	limit    int   // bytes of a body; 0 = no limit
	user     string
	// before may answer a request itself; item one operation: a status other than 0.
	before func(w http.ResponseWriter, n int) bool
	item   func(d document) (status int, typ string)
	// lost carries out the next request and drops the connection.
	lost bool
}

type document struct{ index, id string }

type doc struct {
	source  json.RawMessage
	version int64
	seq     int
	deleted bool
}

func newDouble(t *testing.T) *double {
	t.Helper()
	d := &double{t: t, docs: map[document]*doc{}}
	d.server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(d.server.Close)
	return d
}

// hold tells the documents that are there.
func (d *double) hold() map[document]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := map[document]string{}
	for k, v := range d.docs {
		if !v.deleted {
			held[k] = string(v.source)
		}
	}
	return held
}

// ids lists the field id of the documents, in the order in which they came.
func (d *double) ids(t *testing.T) []string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var docs []*doc
	for _, v := range d.docs {
		if !v.deleted {
			docs = append(docs, v)
		}
	}
	slices.SortFunc(docs, func(a, b *doc) int { return cmp.Compare(a.seq, b.seq) })
	var ids []string
	for _, v := range docs {
		ids = append(ids, idOf(t, v.source))
	}
	return ids
}

func idOf(t *testing.T, source []byte) string {
	t.Helper()
	var fields struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(source, &fields); err != nil || fields.ID == "" {
		t.Errorf("document %s: %v", source, err)
	}
	return fields.ID
}

func (d *double) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	user, password, _ := r.BasicAuth()
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/_bulk" || r.Header.Get("Content-Type") != "application/x-ndjson":
		d.t.Errorf("%s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusNotAcceptable)
		return
	case d.user != "" && user+":"+password != d.user:
		answer(w, http.StatusUnauthorized, `{"error":{"type":"security_exception","reason":"unable to authenticate"},"status":401}`)
		return
	case d.limit > 0 && len(body) > d.limit:
		w.WriteHeader(http.StatusRequestEntityTooLarge) // as a proxy says it
		_, _ = io.WriteString(w, "<html><h1>413 Request Entity Too Large</h1></html>")
		return
	case len(body) == 0 || body[len(body)-1] != '\n':
		answer(w, http.StatusBadRequest, `{"error":{"type":"illegal_argument_exception","reason":"The bulk request must be terminated by a newline [\\n]"},"status":400}`)
		return
	}
	operations, err := parse(body)
	if err != nil {
		d.t.Errorf("bulk body: %v", err)
		answer(w, http.StatusBadRequest, `{"error":{"type":"illegal_argument_exception","reason":"Malformed action"},"status":400}`)
		return
	}
	if d.before != nil && d.before(w, len(operations)) {
		return
	}
	d.requests = append(d.requests, len(operations))
	var items []string
	failed := false
	for i := range operations {
		item, bad := d.apply(&operations[i])
		items = append(items, item)
		failed = failed || bad
	}
	if d.lost {
		d.lost = false
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusOK, fmt.Sprintf(`{"errors":%t,"items":[%s]}`, failed, strings.Join(items, ",")))
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// operation is an action line and its document.
type operation struct {
	action string
	doc    document
	meta   struct {
		Index   string `json:"_index"`
		ID      string `json:"_id"`
		Version *int64 `json:"version"`
		Type    string `json:"version_type"`
	}
	source []byte
}

func parse(body []byte) ([]operation, error) {
	var operations []operation
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	for i := 0; i < len(lines); i++ {
		var action map[string]json.RawMessage
		if err := json.Unmarshal(lines[i], &action); err != nil || len(action) != 1 {
			return nil, fmt.Errorf("action line %q: %w", lines[i], err)
		}
		var op operation
		for name, meta := range action {
			op.action = name
			decoder := json.NewDecoder(bytes.NewReader(meta))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&op.meta); err != nil {
				return nil, err
			}
		}
		op.doc = document{op.meta.Index, op.meta.ID}
		switch op.action {
		case "delete":
		case "index":
			i++
			if i == len(lines) || !json.Valid(lines[i]) {
				return nil, fmt.Errorf("document of %q", lines[i-1])
			}
			op.source = lines[i]
		default:
			return nil, fmt.Errorf("action %q", op.action)
		}
		operations = append(operations, op)
	}
	return operations, nil
}

// apply carries out one operation.
func (d *double) apply(op *operation) (item string, failed bool) {
	fail := func(status int, typ, reason string) (string, bool) {
		return fmt.Sprintf(`{%q:{"status":%d,"error":{"type":%q,"reason":%q}}}`, op.action, status, typ, reason), true
	}
	if d.item != nil {
		if status, typ := d.item(op.doc); status != 0 {
			return fail(status, typ, "so it was asked for")
		}
	}
	if strings.ToLower(op.doc.index) != op.doc.index {
		return fail(400, "invalid_index_name_exception", "must be lowercase")
	}
	if len(op.doc.id) > 512 || op.doc.id == "" {
		return fail(400, "illegal_argument_exception", "id is too long, must be no longer than 512 bytes")
	}
	var fields struct {
		N any `json:"n"`
	}
	if op.source != nil {
		if err := json.Unmarshal(op.source, &fields); err != nil {
			return fail(400, "mapper_parsing_exception", "failed to parse")
		}
		if _, text := fields.N.(string); text {
			return fmt.Sprintf(`{%q:{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse field [n] of type [long]",`+
				`"caused_by":{"type":"illegal_argument_exception","reason":"For input string"}}}}`, op.action), true
		}
	}
	now := d.docs[op.doc]
	next := &doc{source: op.source, deleted: op.action == "delete", version: 1}
	if now != nil {
		next.version = now.version + 1
	}
	if op.meta.Version != nil {
		if op.meta.Type != "external" {
			d.t.Errorf("version of type %q", op.meta.Type)
		}
		if now != nil && now.version >= *op.meta.Version {
			return fail(409, "version_conflict_engine_exception",
				fmt.Sprintf("[%s]: version conflict, current version [%d] is higher or equal to the one provided [%d]", op.doc.id, now.version, *op.meta.Version))
		}
		next.version = *op.meta.Version
	}
	d.seq++
	next.seq = d.seq
	if now != nil && !now.deleted {
		next.seq = now.seq
	}
	d.docs[op.doc] = next
	status := 200
	switch {
	case op.action == "delete" && (now == nil || now.deleted):
		status = 404
	case now == nil || now.deleted:
		status = 201
	}
	return fmt.Sprintf(`{%q:{"status":%d}}`, op.action, status), false
}
