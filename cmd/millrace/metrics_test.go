package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestMetricsOfANode reads /metrics of a whole node: names that collide between
// its parts make the page fail.
func TestMetricsOfANode(t *testing.T) {
	t.Parallel()
	n := startNode(t, filepath.Join(t.TempDir(), "data"))
	n.must(t, "PUT", "/topics/orders", nil, nil)
	if err := n.publish(t.Context(), "orders", map[string]any{"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "data": 1}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"millrace_bus_disk_bytes ", "millrace_bus_log_appends ", "millrace_bus_log_syncs ", "millrace_bus_live_bytes "} {
		if !strings.Contains(string(body), "\n"+want) {
			t.Errorf("no %sin\n%.3000s", want, body)
		}
	}
}
