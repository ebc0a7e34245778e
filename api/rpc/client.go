package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"sync/atomic"
	"time"

	"millrace/bus"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// pingEvery is how often an idle connection is tried, so that one that is dead
// without a word is found out.
const pingEvery = 10 * time.Second

// Pauses double from the first to the last. A call looks often whether there is
// a connection again, for a lease may hang on it; connecting costs more and is
// tried less often.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	lastRedial = 2 * time.Second
)

// maxOdd is how often one call takes a broken answer for a lost connection.
const maxOdd = 20

// Client is a bus.Client whose broker is another process. A call that loses the
// connection is tried again until its context ends. All methods may be called from many goroutines.
type Client struct {
	conn   *grpc.ClientConn
	o      Options
	logger *slog.Logger
	closed atomic.Bool
	down   atomic.Bool // the last try found nobody
}

var _ bus.Client = (*Client)(nil)

// Dial connects to a Server at "host:port" and waits until it has answered or
// ctx ends. A wrong token is ErrToken.
func Dial(ctx context.Context, addr string, o Options) (*Client, error) {
	o.defaults()
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec()), grpc.CallContentSubtype(subtype),
			grpc.MaxCallRecvMsgSize(o.MaxMessage), grpc.MaxCallSendMsgSize(o.MaxMessage),
		),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingEvery / 2, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: lastRedial},
			MinConnectTimeout: 5 * time.Second,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("rpc: address %q: %w", addr, err)
	}
	c := &Client{conn: conn, o: o, logger: o.Logger}
	if _, err := invoke[empty](ctx, c, "Hello", same(&empty{})); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends the connection; calls under way and later ones are bus.ErrClosed.
func (c *Client) Close() error {
	c.closed.Store(true)
	return c.conn.Close()
}

// same makes the same request for every try.
func same(m message) func() message { return func() message { return m } }

// invoke calls a method until it is answered or ctx ends; request makes the
// request of each try.
func invoke[A any, P interface {
	*A
	message
}](ctx context.Context, c *Client, method string, request func() message) (P, error) {
	if c.o.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.o.Token)
	}
	var lost error
	odd := 0
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := ctx.Err(); err != nil {
			return nil, giveUp(method, err, lost)
		}
		answer := P(new(A))
		var trailer metadata.MD
		err := c.conn.Invoke(ctx, path(method), request(), answer, grpc.Trailer(&trailer))
		if err == nil {
			if c.down.CompareAndSwap(true, false) {
				c.logger.Info("broker reached again", "address", c.conn.Target())
			}
			return answer, nil
		}
		if c.closed.Load() {
			return nil, fmt.Errorf("rpc %s: %w", method, bus.ErrClosed)
		}
		if status.Code(err) == codes.Internal {
			odd++
		}
		err = restore(ctx, err, trailer)
		switch {
		case ctx.Err() != nil:
			return nil, giveUp(method, err, lost)
		case !errors.Is(err, errLost) || odd == maxOdd:
			return nil, err
		}
		lost = err
		if c.down.CompareAndSwap(false, true) {
			c.logger.Warn("broker lost, trying again", "address", c.conn.Target(), "method", method, "error", err)
		}
		select {
		case <-time.After(pause/2 + mrand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}

// giveUp names what stood in the way when time was up.
func giveUp(method string, err, lost error) error {
	if lost == nil {
		return fmt.Errorf("rpc %s: %w", method, err)
	}
	return fmt.Errorf("rpc %s: %w (%w)", method, err, lost)
}

// newID names a batch or a request; 130 random bits.
func newID() string { return rand.Text() }
