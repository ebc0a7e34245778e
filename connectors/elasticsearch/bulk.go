package elasticsearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"millrace/connectors"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 64 << 20

// refusedError says that the server will not take a request as it is, while parts
// of it may do.
type refusedError struct{ error }

var errItems = errors.New("connection.url: the answer does not say what became of every event: is this Elasticsearch or OpenSearch?")

// result is one item of an answer.
type result struct {
	Status int `json:"status"`
	Error  *struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
		Cause  *struct {
			Reason string `json:"reason"`
		} `json:"caused_by"`
	} `json:"error"`
}

// post sends one bulk request to the first server in reach, and returns the items
// of its answer.
func (s *sink) post(ctx context.Context, body []byte) ([]result, error) {
	var errs error
	for n := range s.cfg.URLs {
		at := (s.at + n) % len(s.cfg.URLs)
		resp, err := s.request(ctx, s.cfg.URLs[at], body)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			errs = errors.Join(errs, fmt.Errorf("connection.url: %w", err))
			continue
		}
		s.at = at
		said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		_ = resp.Body.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("connection.url: the answer of %s: %w", s.cfg.URLs[at], err)
		}
		if resp.StatusCode != http.StatusOK {
			return nil, s.refusal(resp, said)
		}
		return results(said)
	}
	return nil, errs
}

func (s *sink) request(ctx context.Context, base string, body []byte) (*http.Response, error) {
	// The items keep their order and number; what they say beyond this is not needed.
	const query = "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "millrace")
	switch {
	case s.cfg.APIKey != "":
		req.Header.Set("Authorization", "ApiKey "+s.cfg.APIKey.Reveal())
	case s.cfg.User != "":
		req.SetBasicAuth(s.cfg.User, s.cfg.Password.Reveal())
	}
	return s.client.Do(req)
}

// results reads an answer.
func results(said []byte) ([]result, error) {
	var answer struct {
		Items []map[string]result `json:"items"`
	}
	if err := json.Unmarshal(said, &answer); err != nil {
		return nil, fmt.Errorf("connection.url: the answer is no JSON, so this is not Elasticsearch or OpenSearch: %w%s", err, excerpt(said))
	}
	items := make([]result, 0, len(answer.Items))
	for _, item := range answer.Items {
		for _, r := range item { // one: by the name of the action
			items = append(items, r)
		}
	}
	return items, nil
}

// refusal says what an answer other than 200 means for the whole request.
func (s *sink) refusal(resp *http.Response, said []byte) error {
	err := fmt.Errorf("%s answered %s%s", s.cfg.URLs[s.at], resp.Status, excerpt(said))
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized:
		key := "connection.username"
		if s.cfg.APIKey != "" {
			key = "api.key"
		}
		return fmt.Errorf("%s: the credentials are not accepted: %w", key, err)
	case code == http.StatusForbidden:
		return fmt.Errorf("connection.username: the user may not write: %w", err)
	case code == http.StatusRequestEntityTooLarge:
		return &refusedError{fmt.Errorf("larger than the server takes: %w", err)}
	case code == http.StatusBadRequest:
		return &refusedError{err}
	case code == http.StatusTooManyRequests, code >= 500:
		if after, asked := connectors.RetryAfter(resp.Header.Get("Retry-After"), s.now()); asked {
			return &connectors.RetryError{After: after, Err: err}
		}
		return err
	default:
		return fmt.Errorf("connection.url: is this Elasticsearch or OpenSearch? %w", err)
	}
}

// judge says what became of an operation: nil where the document is as it should
// be.
func (r *result) judge(op *operation) error {
	if r.Status >= 200 && r.Status < 300 || r.Status == http.StatusNotFound && op.delete && r.Error == nil {
		return nil
	}
	err := r.describe()
	typ := ""
	if r.Error != nil {
		typ = r.Error.Type
	}
	switch {
	case r.Status == http.StatusConflict && op.version > 0:
		// The document is at this version or a newer one, so there is nothing to do.
		if other := current(err.Error()); other != 0 && topicOf(other) != topicOf(op.version) {
			return connectors.Permanent(fmt.Errorf("external.version: the document is of another topic, or of one that was made again: give each topic its index, or set it to false: %w", err))
		}
		return nil
	case r.Status == http.StatusConflict, r.Status == http.StatusTooManyRequests, r.Status >= 500, r.Status == 0,
		typ == "cluster_block_exception", strings.HasPrefix(typ, "unavailable_shards"):
		return err
	case typ == "security_exception":
		return fmt.Errorf("connection.username: the user may not write index %s: %w", op.index, err)
	case typ == "index_not_found_exception":
		return connectors.Permanent(fmt.Errorf("index: create it, or allow the server to: %w", err))
	default:
		return connectors.Permanent(err)
	}
}

func (r *result) describe() error {
	if r.Error == nil {
		return fmt.Errorf("the server answered %d", r.Status)
	}
	text := r.Error.Type + ": " + r.Error.Reason
	if r.Error.Cause != nil && r.Error.Cause.Reason != "" {
		text += ": " + r.Error.Cause.Reason
	}
	return fmt.Errorf("the server answered %d %s", r.Status, text)
}

// current reads the version that a conflict tells; 0 where it tells none.
func current(reason string) int64 {
	m := regexp.MustCompile(`current version \[(\d+)\]`).FindStringSubmatch(reason)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// excerpt is the beginning of an answer, on one line.
func excerpt(said []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(said[:min(len(said), 300)]), "")), " ")
	if text == "" {
		return ""
	}
	return ": " + text
}
