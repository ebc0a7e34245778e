package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// TestShowYAML reads back what was shown: nothing is lost or turned into
// something else, whatever the strings look like.
func TestShowYAML(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"b":"true","a":[1,"1","null","~","",{}," x ","a: b","#c","2026-01-01","0x10","-",[],null,false,1.5,"line\nline","é\u0000"],"yes":"no","n":9007199254740993}`)
	var b bytes.Buffer
	if err := show(&b, formYAML, raw, nil); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := yaml.Load(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	asJSON, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(asJSON, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s\nshown as\n%s", diff, b.String())
	}
	if bytes.ContainsAny(b.Bytes()[:1], "{[") {
		t.Errorf("shown in JSON's style:\n%s", b.String())
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	groups := json.RawMessage(`{"name":"rule-a","mode":"stream","queues":[
		{"topic":"orders","queue":0,"first":0,"next":12,"checkpoint":10,"lag":2,"owner":"m1"},
		{"topic":"orders","queue":1,"first":0,"next":3,"checkpoint":-1,"lag":3,"owner":""}]}`)
	var b bytes.Buffer
	if err := show(&b, formTable, groups, groupTable); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"TOPIC   QUEUE  FIRST  NEXT  CHECKPOINT  LAG  OWNER\n" +
		"orders  0      0      12    10          2    m1\n" +
		"orders  1      0      3     -           3    -\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := show(&b, formTable, json.RawMessage(`["not an object"]`), groupTable); err == nil {
		t.Error("an answer of another shape was shown")
	}
}
