package generator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectorstest"
	"millrace/connectors/generator"
)

const everything = `{"n":{{n}},"u":"{{uuid}}","v":{{uuid}},"at":{{now}},"r":{{random -3 3}},"f":{{ float 1 2 }},"b":{{bool}},"c":{{oneof red green}},"t":"a \"{{oneof x}}\" {{n}}"}`

func TestConformance(t *testing.T) {
	for name, config := range map[string]map[string]any{
		"plain":  {"topic": "t", "count": 2500, "rate": 0},
		"padded": {"topic": "t", "count": 10, "rate": 1000, "payload.bytes": "1MiB", "template": everything, "key": "k-{{random 1 3}}"},
	} {
		t.Run(name, func(t *testing.T) {
			connectorstest.Source(t, connectorstest.SourceCase{
				Plugin: generator.Plugin(), Config: config, Events: map[string]int{"plain": 2500, "padded": 10}[name], Volatile: true,
			})
		})
	}
}

func read(t *testing.T, config map[string]any, n int) []connectors.Out {
	t.Helper()
	s, err := generator.Plugin().Source.Open(t.Context(), config, connectors.Env{Connector: "g"})
	if err != nil {
		t.Fatal(err)
	}
	var outs []connectors.Out
	for len(outs) < n {
		p, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, p.Events...)
	}
	return outs
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	uuid := `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	want := regexp.MustCompile(`^\{"n":\d+,"u":"` + uuid + `","v":"` + uuid + `","at":"2[^"]*Z","r":-?[0-3],"f":[12]\.\d\d,"b":(true|false),"c":"(red|green)","t":"a \\"x\\" \d+","padding":"x*"\}$`)
	config := map[string]any{"topic": "t", "rate": 0, "template": everything, "payload.bytes": 700, "key": "k {{oneof a b}}", "type": "x"}
	outs := read(t, config, 200)
	values := map[string]bool{}
	for i, o := range outs[:200] {
		e := o.Event
		if !want.Match(e.Data) || !json.Valid(e.Data) || len(e.Data) != 700 {
			t.Fatalf("%d bytes: %s", len(e.Data), e.Data)
		}
		if e.ID != fmt.Sprint("g-", i) || e.Source != "/generator/g" || e.Type != "x" || e.Key != "k a" && e.Key != "k b" {
			t.Fatalf("%+v", e)
		}
		values[e.Key] = true
	}
	if len(values) != 2 {
		t.Error("one key only:", values)
	}
	strip := regexp.MustCompile(`"at":"[^"]*"`)
	again := read(t, config, 200)
	config["seed"] = 2
	other := read(t, config, 200)
	data := func(o connectors.Out) string { return strip.ReplaceAllString(string(o.Event.Data), "") }
	if data(outs[150]) != data(again[150]) || data(outs[150]) == data(other[150]) {
		t.Error("the seed alone must make the difference")
	}
	if got := string(read(t, map[string]any{"topic": "t", "rate": 0, "template": "{}", "payload.bytes": 20}, 1)[0].Event.Data); got != `{"padding":"xxxxxx"}` {
		t.Error(got)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		read(t, map[string]any{"topic": "t", "rate": 2.5}, 26)
		if took := time.Since(begin); took < 10*time.Second || took > 10*time.Second+time.Millisecond {
			t.Error(took)
		}
		s, err := generator.Plugin().Source.Open(t.Context(), map[string]any{"topic": "t", "rate": 0.001}, connectors.Env{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin = time.Now()
		p, err1 := s.Read(ctx)
		_, err2 := s.Read(ctx)
		if len(p.Events) != 1 || err1 != nil || !errors.Is(err2, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
			t.Error(p, err1, err2, time.Since(begin))
		}
		begin = time.Now()
		if n := len(read(t, map[string]any{"topic": "t", "rate": 100000}, 100000)); n != 100000 {
			t.Error(n)
		}
		if took := time.Since(begin); took < 990*time.Millisecond || took > 1010*time.Millisecond {
			t.Error(took)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`{"a":{{n}`:            `template: {{n} has no }}`,
		`{"a":{{m}}}`:          `template: {{m}} is not known: use`,
		`{"a":{{random 3 1}}}`: `template: {{random 3 1}} needs two whole numbers, the lower one first`,
		`{"a":{{oneof}}}`:      `template: {{oneof}} is not known`,
		`a {{n}}`:              `template: it makes a 1, which is not valid JSON`,
		`[{{n}}]`:              `payload.bytes: needs a template that makes a JSON object`,
	} {
		err := generator.Plugin().Source.Check(map[string]any{"topic": "t", "template": template, "payload.bytes": 100})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", template, err)
		}
	}
	if err := generator.Plugin().Source.Check(map[string]any{"topic": "t", "key": "{{x}}"}); err == nil || !strings.HasPrefix(err.Error(), "key: ") {
		t.Error(err)
	}
}
