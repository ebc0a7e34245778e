package transforms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"millrace/bus/event"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	_, err := compileJSON(t, `[{"remove": ["data.x"]}, {"set": {"data.x": 1}, "if": {"data": {"x": 1}}}]`)
	var e *Error
	if !errors.As(err, &e) || e.Field != "transforms[1].if.data.x" || e.Msg == "" {
		t.Errorf("got %#v", err)
	}
	for _, raw := range []string{``, `{`, `nul`, `{"set": {"data.x": 1}`, "{\"set\": {\"data.x\": \"\xff\"}}"} {
		_, err := Compile([]json.RawMessage{[]byte(raw)}, Env{})
		if !errors.As(err, &e) || e.Field != "transforms[0]" {
			t.Errorf("%q: %#v", raw, err)
		}
	}
	c := mustCompile(t, `[{"remove": ["data.x"]}, {"cast": {"data.n": "int"}}]`)
	in := []event.Event{
		{ID: "1", Source: "/s", Type: "t", Data: []byte(`{"n":"x","x":1}`)},
		{ID: "2", Source: "/s", Type: "t", Data: []byte(`{"n":"5","x":1}`)},
	}
	results, err := c.Apply(context.Background(), in)
	if err != nil || len(results) != 2 || results[0].Parent != 0 || results[1].Parent != 1 {
		t.Fatalf("%v %v", results, err)
	}
	var se *StepError
	if !errors.As(results[0].Err, &se) || se.Index != 1 || se.Step != "cast" || errors.Unwrap(se) == nil {
		t.Errorf("got %#v", results[0].Err)
	}
	if got := string(results[0].Event.Data); got != `{"n":"x"}` {
		t.Errorf("the failed event is %s, not as it came into the step", got)
	}
	if got := string(results[1].Event.Data); got != `{"n":5}` || results[1].Err != nil {
		t.Errorf("the other is %s, %v", got, results[1].Err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Apply(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Apply gives %v", err)
	}
}

// TestBrokenData feeds every step data that claims to be JSON and is not: it may
// fail or not, but neither panics nor changes its input.
func TestBrokenData(t *testing.T) {
	t.Parallel()
	chains := everyStep(t)
	good := `{"a":{"b":[1,{"c":"x\"y"}]},"items":[{"sku":1}],"op":"u","after":{"id":1}}`
	for _, c := range chains {
		for cut := range len(good) {
			for _, data := range []string{good[:cut], good[cut:], good[:cut] + "\\" + good[cut:], good[:cut] + `"` + good[cut:]} {
				in := event.Event{ID: "1", Source: "/s", Type: "t", Data: []byte(data)}
				if _, err := c.Apply(context.Background(), []event.Event{in}); err != nil {
					t.Fatal(err)
				}
				if string(in.Data) != data {
					t.Fatalf("%s became %s", data, in.Data)
				}
			}
		}
	}
}

// everyStep is one chain per kind of step.
func everyStep(tb testing.TB) []*Chain {
	tb.Helper()
	var chains []*Chain
	for _, steps := range []string{
		`[{"set": {"data.a.b[1].c": 1, "data.new": "data.items[0].sku"}}]`,
		`[{"setAttributes": {"subject": "data.a.b[0]"}}]`,
		`[{"rename": {"data.a.b": "data.a.z", "data.items": "data.a.items"}}]`,
		`[{"remove": ["data.a.b[*].c", "data.items[0]"]}]`,
		`[{"keep": ["data.a.b[*].c", "data.items[0].sku"]}]`,
		`[{"cast": {"data.items[*].sku": "string"}}]`,
		`[{"template": {"x": "${data.a}", "y": "<${data.items}>"}}]`,
		`[{"filter": {"where": "data.a.b[0] == 1", "when": {"data": {"op": ["u"]}}}}]`,
		`[{"unwrap": {"delete": "rewrite"}}]`,
		`[{"split": {"path": "data.items", "into": "data.a.item"}}]`,
		`[{"load": {"textField": "data.op"}}]`,
		`[{"chunk": {"size": 3}}]`,
		`[{"embed": {"dimensions": 16}}]`,
	} {
		var raws []json.RawMessage
		if err := json.Unmarshal([]byte(steps), &raws); err != nil {
			tb.Fatal(err)
		}
		c, err := Compile(raws, testEnv())
		if err != nil {
			tb.Fatalf("%s: %v", steps, err)
		}
		chains = append(chains, c)
	}
	if len(chains) != len(List()) {
		tb.Fatalf("there are %d kinds of steps, but %d are tried here", len(List()), len(chains))
	}
	return chains
}

func TestMisses(t *testing.T) {
	t.Parallel()
	var misses []string
	env := Env{Miss: func(step int, err error) { misses = append(misses, fmt.Sprint(step, err != nil)) }}
	c, err := Compile([]json.RawMessage{
		[]byte(`{"set": {"data.x": 1}, "if": "data.n > 5"}`),
		[]byte(`{"filter": {"where": "data.n > 5"}}`),
	}, env)
	if err != nil {
		t.Fatal(err)
	}
	results, err := c.Apply(context.Background(), []event.Event{
		{ID: "1", Source: "/s", Type: "t", Data: []byte(`{"n":"text"}`)},
		{ID: "2", Source: "/s", Type: "t", Data: []byte(`{"n":6}`)},
	})
	if err != nil || len(results) != 1 || results[0].Parent != 1 {
		t.Errorf("%v %v", results, err)
	}
	if !slices.Equal(misses, []string{"0 true", "1 true"}) {
		t.Errorf("misses are %v", misses)
	}
}

// TestConcurrent runs one chain from many goroutines: they get what one gets.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	c := mustCompile(t, `[{"set": {"data.total": "data.n * 2", "subject": "data.name"}, "if": {"data": {"n": [{"numeric": [">", 10]}]}}}, {"filter": {"where": "data.n % 3 != 0"}}, {"template": {"n": "${data.n}", "t": "${data.total}"}}]`)
	in := make([]event.Event, 100)
	for i := range in {
		in[i] = event.Event{ID: strconv.Itoa(i), Source: "/s", Type: "t", Data: fmt.Appendf(nil, `{"n":%d,"name":"n%d"}`, i, i)}
	}
	want, err := c.Apply(context.Background(), in)
	if err != nil || len(want) != 66 {
		t.Fatalf("%d %v", len(want), err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				got, err := c.Apply(context.Background(), in)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"data", "data.a.b[0]", `data.a\.b`, "type", "ext.region", "data[*].x", "data..", `data.\`, "[0]", "data.x]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, err := ParsePath(src)
		if err != nil {
			return
		}
		if !p.isData() {
			if p.attr == "" || len(p.segs) > 0 {
				t.Fatalf("%q is read as %+v", src, p)
			}
			return
		}
		again, err := ParsePath(upTo(p.segs, len(p.segs)))
		if err != nil || !reflect.DeepEqual(again.segs, p.segs) {
			t.Fatalf("%q is read as %v, written and read again as %v, %v", src, p.segs, again.segs, err)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add(`{"a":"${data.a} and ${type}","b":["${data}"]}`, `{"a":{"b":"\"x\""}}`)
	f.Add(`"$${data.a}"`, `[]`)
	f.Add(`{"a":"${data.a[0]}","a2":"${id}$"}`, `{"a":[1e5]}`)
	f.Fuzz(func(t *testing.T, template, data string) {
		if event.CheckJSON([]byte(template)) != nil || event.CheckJSON([]byte(data)) != nil {
			return
		}
		for _, missing := range []string{"null", "omit", "fail"} {
			c, err := Compile([]json.RawMessage{fmt.Appendf(nil, `{"template":%s,"missing":%q}`, template, missing)}, Env{})
			if err != nil {
				if !strings.HasPrefix(err.Error(), "transforms[0]") {
					t.Fatalf("%v", err)
				}
				return
			}
			in := event.Event{ID: "1", Source: "/s", Type: "t", Data: []byte(data)}
			results, err := c.Apply(context.Background(), []event.Event{in})
			if err != nil || len(results) != 1 {
				t.Fatalf("%v %v", results, err)
			}
			if results[0].Err == nil && event.CheckJSON(results[0].Event.Data) != nil {
				t.Fatalf("%s on %s gives %s", template, data, results[0].Event.Data)
			}
		}
	})
}

// FuzzSteps runs every step over any JSON: what comes out is JSON too.
func FuzzSteps(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":"x\"y"}]},"items":[{"sku":1}],"op":"u","after":{"id":1}}`)
	f.Add(`[]`)
	f.Add(`{"op":"d","before":{}, "a":null,"items":[{},1]}`)
	chains := everyStep(f)
	f.Fuzz(func(t *testing.T, data string) {
		if event.CheckJSON([]byte(data)) != nil {
			return
		}
		for i, c := range chains {
			in := event.Event{ID: "1", Source: "/s", Type: "t", Data: []byte(data)}
			results, err := c.Apply(context.Background(), []event.Event{in})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Err == nil && event.CheckJSON(r.Event.Data) != nil {
					t.Fatalf("%s on %s gives %s", List()[i].Name, data, r.Event.Data)
				}
			}
			if string(in.Data) != data {
				t.Fatalf("%s changed its input", List()[i].Name)
			}
		}
	})
}
