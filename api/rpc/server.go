package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	"millrace/bus"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const service = "millrace.rpc.v1.Bus"

// DefaultMaxMessage is what one message may take, in bytes: an event of 64 MiB
// and what goes with it.
const DefaultMaxMessage = 80 << 20

// Options are for both sides; the zero value works.
type Options struct {
	// Token is the bearer token that the server asks for and the client sends. A
	// server without one serves whoever reaches it.
	Token string
	// TLS secures the connection; nil means plain TCP.
	TLS *tls.Config
	// MaxMessage bounds one message in bytes; 0 means DefaultMaxMessage.
	MaxMessage int
	// Logger hears of lost connections; nil means nowhere.
	Logger *slog.Logger
}

func (o *Options) defaults() {
	if o.MaxMessage <= 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// ServerOptions are what the grpc.Server that carries a Server must be made
// with. Services in protobuf can live on it as well.
func ServerOptions(o Options) []grpc.ServerOption {
	o.defaults()
	out := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		// Whoever waits long for something new proves that it lives; see Dial.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery / 2, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * pingEvery, Timeout: pingEvery}),
	}
	if o.TLS != nil {
		out = append(out, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return out
}

// Server serves a bus.Client to remote workers.
type Server struct {
	c        bus.Client
	o        Options
	token    [sha256.Size]byte
	once     once
	sessions sessions
}

// NewServer makes a Server. Register it on a grpc.Server made with
// ServerOptions of the same Options.
func NewServer(c bus.Client, o Options) *Server {
	o.defaults()
	return &Server{c: c, o: o, token: sha256.Sum256([]byte(o.Token))}
}

// Register adds the service to g, before g serves.
func (s *Server) Register(g *grpc.Server) {
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary("Hello", (*Server).hello),
			unary("Topics", (*Server).topics),
			unary("Topic", (*Server).topic),
			unary("CreateTopic", (*Server).createTopic),
			unary("DeleteTopic", (*Server).deleteTopic),
			unary("Append", (*Server).append),
			unary("Read", (*Server).read),
			unary("Bounds", (*Server).bounds),
			unary("OffsetAt", (*Server).offsetAt),
			unary("Scan", (*Server).scan),
			unary("Changed", (*Server).changed),
			unary("Groups", (*Server).groups),
			unary("ResetGroup", (*Server).resetGroup),
			unary("Checkpoint", (*Server).checkpoint),
			unary("Positions", (*Server).positions),
			unary("ForgetGroup", (*Server).forgetGroup),
			unary("Join", (*Server).join),
			unary("Slots", (*Server).slots),
			unary("Leave", (*Server).leave),
		},
	}, s)
}

// unary is a method whose request is a Q.
func unary[Q any, P interface {
	*Q
	message
}](name string, h func(*Server, context.Context, P) (message, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, dec func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
		s, _ := srv.(*Server)
		if err := s.admit(ctx); err != nil {
			return nil, err
		}
		req := P(new(Q))
		if err := dec(req); err != nil {
			return nil, fail(ctx, &bus.Error{Kind: bus.ErrInvalid, Thing: "rpc " + name, Msg: status.Convert(err).Message()})
		}
		run := func(ctx context.Context, _ any) (any, error) {
			out, err := h(s, ctx, req)
			if err != nil {
				return nil, fail(ctx, err)
			}
			return out, nil
		}
		if around == nil {
			return run(ctx, req)
		}
		return around(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: path(name)}, run)
	}}
}

func path(method string) string { return "/" + service + "/" + method }

// admit checks the token, in a time that says nothing about it.
func (s *Server) admit(ctx context.Context) error {
	if s.o.Token == "" {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("authorization") {
		sum := sha256.Sum256([]byte(strings.TrimPrefix(v, "Bearer ")))
		if subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "token missing or wrong: give the one in the server's token file")
}

func (s *Server) hello(context.Context, *empty) (message, error) { return &empty{}, nil }

func (s *Server) topics(ctx context.Context, _ *empty) (message, error) {
	list, err := s.c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	out := &jsonOf[[]topicBody]{V: make([]topicBody, len(list))}
	for i, t := range list {
		out.V[i] = bodyOf(t)
	}
	return out, nil
}

func (s *Server) topic(ctx context.Context, q *jsonOf[topicName]) (message, error) {
	t, err := s.c.Topic(ctx, q.V.Name)
	return &jsonOf[topicBody]{V: bodyOf(t)}, err
}

func (s *Server) createTopic(ctx context.Context, q *jsonOf[topicBody]) (message, error) {
	return s.once.do(ctx, q.V.Once, func(ctx context.Context) (message, error) {
		t, err := s.c.CreateTopic(ctx, q.V.topic())
		return &jsonOf[topicBody]{V: bodyOf(t)}, err
	})
}

func (s *Server) deleteTopic(ctx context.Context, q *jsonOf[topicName]) (message, error) {
	return s.once.do(ctx, q.V.Once, func(ctx context.Context) (message, error) {
		return &empty{}, s.c.DeleteTopic(ctx, q.V.Name, q.V.Force)
	})
}

func (s *Server) append(ctx context.Context, q *appendRequest) (message, error) {
	at, err := s.c.Append(ctx, q.batch)
	return &appendAnswer{runs: runsOf(at)}, err
}

// answerBytes bounds an answer of records; one event may exceed it, and still
// fits a message.
func (s *Server) answerBytes() int { return s.o.MaxMessage / 2 }

func (s *Server) read(ctx context.Context, q *readRequest) (message, error) {
	if q.max.Bytes > s.answerBytes() {
		q.max.Bytes = s.answerBytes() // Invariant 10
	}
	recs, err := s.c.Read(ctx, q.from, q.max)
	return &records{recs: recs, max: s.answerBytes()}, err
}

func (s *Server) scan(ctx context.Context, q *scanRequest) (message, error) {
	recs, err := s.c.Scan(ctx, q.topic, q.prefix, q.after, q.limit)
	return &records{recs: recs, max: s.answerBytes()}, err
}

func (s *Server) bounds(ctx context.Context, q *jsonOf[topicName]) (message, error) {
	b, err := s.c.Bounds(ctx, q.V.Name)
	return &jsonOf[[]bus.Bound]{V: b}, err
}

func (s *Server) offsetAt(ctx context.Context, q *jsonOf[offsetAtRequest]) (message, error) {
	off, err := s.c.OffsetAt(ctx, q.V.Topic, q.V.Queue, q.V.Time)
	return &jsonOf[int64]{V: off}, err
}

func (s *Server) changed(ctx context.Context, q *jsonOf[changedRequest]) (message, error) {
	v, err := s.c.Changed(ctx, q.V.Topic, q.V.Seen)
	return &jsonOf[int64]{V: v}, err
}

func (s *Server) groups(ctx context.Context, _ *empty) (message, error) {
	g, err := s.c.Groups(ctx)
	return &jsonOf[[]bus.GroupInfo]{V: g}, err
}

func (s *Server) resetGroup(ctx context.Context, q *jsonOf[groupRequest]) (message, error) {
	return s.once.do(ctx, q.V.Once, func(ctx context.Context) (message, error) {
		return &empty{}, s.c.ResetGroup(ctx, q.V.Group, q.V.To)
	})
}

func (s *Server) checkpoint(ctx context.Context, q *jsonOf[groupRequest]) (message, error) {
	saved, err := s.c.Checkpoint(ctx, q.V.Group, q.V.Slot)
	return &jsonOf[bus.Saved]{V: saved}, err
}

func (s *Server) positions(ctx context.Context, q *jsonOf[groupRequest]) (message, error) {
	p, err := s.c.Positions(ctx, q.V.Group)
	return &positions{p: p}, err
}

func (s *Server) forgetGroup(ctx context.Context, q *jsonOf[groupRequest]) (message, error) {
	return s.once.do(ctx, q.V.Once, func(ctx context.Context) (message, error) {
		return &empty{}, s.c.ForgetGroup(ctx, q.V.Group)
	})
}

func (s *Server) join(ctx context.Context, q *jsonOf[groupRequest]) (message, error) {
	return s.once.do(ctx, q.V.Once, func(ctx context.Context) (message, error) {
		m, err := s.c.Join(ctx, q.V.Group, q.V.Slots)
		if err != nil {
			return nil, err
		}
		return &jsonOf[memberRequest]{V: memberRequest{Member: s.sessions.add(m)}}, nil
	})
}

func (s *Server) slots(ctx context.Context, q *jsonOf[memberRequest]) (message, error) {
	came := time.Now()
	seq, slots, err := s.sessions.slots(ctx, q.V.Member, q.V.Ack)
	if err != nil {
		return nil, err
	}
	out := &jsonOf[slotsAnswer]{V: slotsAnswer{Seq: seq, Slots: make([]slotBody, len(slots))}}
	for i, sl := range slots {
		out.V.Slots[i] = slotBody{Name: sl.Name, Epoch: sl.Epoch, Left: int64(sl.Until.Sub(came))}
	}
	return out, nil
}

func (s *Server) leave(ctx context.Context, q *jsonOf[memberRequest]) (message, error) {
	return &empty{}, s.sessions.leave(ctx, q.V.Member)
}
