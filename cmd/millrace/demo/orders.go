package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
)

const (
	webhookSecret = "only-for-the-demo"
	patience      = 20 * time.Second
)

func (r *run) orders(ctx context.Context, t *target) error {
	r.begin("orders", "CloudEvents and a signed webhook → a rule → a file and an HTTP target")
	if err := r.node.apply(ctx, filepath.Join(r.o.Root, "examples", "orders.yaml")); err != nil {
		return err
	}
	if err := r.postOrders(ctx); err != nil {
		return err
	}
	file := filepath.Join(r.dir, "big-orders.ndjson")
	want := []string{"o1", "o4", "hook-1"}
	_, ok, err := until(ctx, patience, func() (bool, error) {
		ids, err := idsIn(file)
		return len(ids) >= len(want), err
	})
	if err != nil {
		return err
	}
	ids, err := idsIn(file)
	if err != nil {
		return err
	}
	slices.Sort(ids)
	slices.Sort(want)
	r.check(ok && slices.Equal(ids, want), "the file holds the big orders in euro, by event or webhook, and no others: %s", strings.Join(ids, " "))
	_, ok, err = until(ctx, patience, func() (bool, error) { return t.has("o1") && t.has("o4") && t.has("hook-1"), nil })
	if err != nil {
		return err
	}
	r.check(ok, "the HTTP target got the same three")
	if err := r.checkUnmatched(ctx); err != nil {
		return err
	}
	return r.redrive(ctx, file, t)
}

// postOrders posts six orders with the CloudEvents SDK, in binary and structured
// mode, one of them poisoned, one by a signed webhook and one with a wrong
// signature.
func (r *run) postOrders(ctx context.Context) error {
	client, err := cloudevents.NewClientHTTP(cloudevents.WithTarget(r.node.url + "/topics/orders/events"))
	if err != nil {
		return err
	}
	posted := 0
	for i, data := range []string{
		`{"amount":250,"currency":"EUR","customer":{"id":"c1","name":"Ada"}}`,
		`{"amount":20,"currency":"EUR","customer":{"id":"c2","name":"Bo"}}`,
		`{"amount":900,"currency":"USD","customer":{"id":"c3","name":"Cy"}}`,
		`{"amount":100.01,"currency":"EUR","customer":{"id":"c4","name":"Di"}}`,
		`{"amount":500,"currency":"EUR"}`, // poisoned: whose order?
		`{"amount":5,"currency":"EUR","customer":{"id":"c6","name":"Ed"}}`,
	} {
		e := cloudevents.NewEvent()
		e.SetID(fmt.Sprint("o", i+1))
		e.SetSource("/demo")
		e.SetType("order.created")
		e.SetExtension("partitionkey", e.ID())
		if err := e.SetData(cloudevents.ApplicationJSON, json.RawMessage(data)); err != nil {
			return err
		}
		how := cloudevents.WithEncodingBinary(ctx)
		if i%2 == 1 {
			how = cloudevents.WithEncodingStructured(ctx)
		}
		if result := client.Send(how, e); cloudevents.IsACK(result) {
			posted++
		} else {
			r.say("         order %s: %v", e.ID(), result)
		}
	}
	r.check(posted == 6, "%d orders posted with the CloudEvents SDK, in binary and structured mode", posted)

	body := []byte(`{"amount":1200,"currency":"EUR","customer":{"id":"c7","name":"Flo"}}`)
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	mac.Write(body)
	header := map[string]string{"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "X-GitHub-Delivery": "hook-1"}
	if err := r.node.call(ctx, "POST", "/webhooks/shop", header, body, nil); err != nil {
		return err
	}
	header["X-Hub-Signature-256"] = "sha256=" + strings.Repeat("00", sha256.Size)
	err = r.node.call(ctx, "POST", "/webhooks/shop", header, body, nil)
	r.check(err != nil && strings.Contains(err.Error(), "401"), "a signed webhook is taken, one with a wrong signature answers 401")
	return nil
}

func (r *run) checkUnmatched(ctx context.Context) error {
	const metric = "millrace_task_dropped_total"
	var n float64
	_, ok, err := until(ctx, patience, func() (bool, error) {
		values, err := r.node.metric(ctx, metric, `name="orders",reason="unmatched"`)
		n = values
		return values == 3, err
	})
	if err != nil {
		return err
	}
	r.check(ok, "%s says that %.0f orders matched no rule", metric, n)
	return nil
}

// redrive looks at the poisoned order in the dead letters, mends the rule and
// sends it again.
func (r *run) redrive(ctx context.Context, file string, t *target) error {
	const dead = "__dead.big-orders"
	var letters []map[string]any
	_, ok, err := until(ctx, patience, func() (bool, error) {
		letters = nil
		err := r.node.call(ctx, "GET", "/dead-letters/"+dead, nil, nil, &letters)
		if err != nil && strings.Contains(err.Error(), "404") {
			err = nil
		}
		return len(letters) >= 2, err // one for each of the rule's two targets
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(letters)
	if err != nil {
		return err
	}
	reason := ""
	if len(letters) > 0 {
		reason = fmt.Sprint(letters[0]["mrreason"])
	}
	r.check(ok && strings.Contains(string(text), `"o5"`) && strings.Contains(string(text), "customer"), "the poisoned order is in the dead letters of both targets: %s", reason)

	var rule struct {
		Spec map[string]any `json:"spec"`
	}
	if err := r.node.call(ctx, "GET", "/rules/big-orders", nil, nil, &rule); err != nil {
		return err
	}
	steps, _ := rule.Spec["transforms"].([]any)
	var step map[string]any
	if len(steps) > 0 {
		step, _ = steps[0].(map[string]any)
	}
	if step == nil {
		return fmt.Errorf("rule big-orders has no step to mend: %v", rule.Spec)
	}
	step["missing"] = "null"
	if err := r.node.call(ctx, "PUT", "/rules/big-orders", nil, rule.Spec, nil); err != nil {
		return err
	}
	var answer struct{ Redriven int }
	if err := r.node.call(ctx, "POST", "/dead-letters/"+dead+"/redrive", nil, map[string]any{}, &answer); err != nil {
		return err
	}
	again := time.Now().Add(2 * time.Second)
	_, ok, err = until(ctx, patience, func() (bool, error) {
		ids, err := idsIn(file)
		if err != nil || slices.Contains(ids, "o5") && t.has("o5") {
			return err == nil, err
		}
		// A redrive that overtook the mended rule ends where it came from.
		if time.Now().After(again) {
			again = time.Now().Add(2 * time.Second)
			err = r.node.call(ctx, "POST", "/dead-letters/"+dead+"/redrive", nil, map[string]any{}, nil)
		}
		return false, err
	})
	if err != nil {
		return err
	}
	r.check(ok && answer.Redriven == 2, "the rule mended and %d dead letters redriven: both targets have the order", answer.Redriven)
	letters = nil
	err = r.node.call(ctx, "GET", "/dead-letters/"+dead, nil, nil, &letters)
	r.check(err == nil && len(letters) == 0, "no dead letter is left")
	return nil
}

// idsIn returns the ids of the events in a file of NDJSON.
func idsIn(path string) ([]string, error) {
	all, err := lines(path)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, l := range all {
		var e struct{ ID string }
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		ids = append(ids, e.ID)
	}
	return ids, nil
}

// metric adds up the samples of one metric whose labels hold label.
func (n *node) metric(ctx context.Context, name, label string) (sum float64, err error) {
	text, err := n.text(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name) || !strings.Contains(line, label) {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:], &v); err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, nil
}
