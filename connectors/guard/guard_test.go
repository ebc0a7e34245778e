package guard

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestPrivate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"10.1.2.3": true, "172.16.0.1": true, "192.168.1.1": true, "169.254.169.254": true, "127.9.9.9": true, "0.0.0.0": true, "100.64.0.1": true,
		"224.0.0.1": true, "255.255.255.255": true, "::1": true, "::": true, "fe80::1": true, "fc00::1": true, "::ffff:10.0.0.1": true,
		"64:ff9b::a00:1": true, "2002:7f00:1::": true, "::127.0.0.1": true,
		"8.8.8.8": false, "2606:4700::1111": false, "64:ff9b::808:808": false, "172.32.0.1": false,
	} {
		if got := Private(netip.MustParseAddr(text)); got != want {
			t.Error(text, got)
		}
	}
}

// TestControl dials a name that leads to this machine.
func TestControl(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := net.Dialer{Control: Control}
	c, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("localhost", port))
	if !errors.Is(err, ErrPrivate) {
		t.Errorf("connected to localhost: %v %v", c, err)
	}
}
