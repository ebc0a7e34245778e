package http

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"millrace/connectors/guard"
)

// ErrPrivate says that a URL leads where it must not.
var ErrPrivate = errors.New("allow.private: the address is loopback, private or link-local: set allow.private to true if that is meant")

// public refuses to connect to addresses that are not of the public internet.
func public(network, address string, c syscall.RawConn) error {
	err := guard.Control(network, address, c)
	if errors.Is(err, guard.ErrPrivate) {
		return fmt.Errorf("%s: %w", address, ErrPrivate)
	}
	return err
}

func newClient(c *config) *http.Client {
	dialer := &net.Dialer{Timeout: min(c.Timeout, 10*time.Second)}
	if !c.AllowPrivate {
		dialer.Control = public
	}
	return &http.Client{
		Timeout: c.Timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
			TLSHandshakeTimeout: min(c.Timeout, 10*time.Second), MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
