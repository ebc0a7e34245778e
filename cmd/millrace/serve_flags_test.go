package main

import (
	"testing"
)

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "LocalHost": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.org": false, "::ffff:127.0.0.1": true,
	} {
		if got := loopback(host); got != want {
			t.Errorf("loopback(%q) = %t, want %t", host, got, want)
		}
	}
}
