package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
)

// What Options hold unless told otherwise.
const (
	DefaultDeadline  = 100 * time.Millisecond
	DefaultBatchWait = 500 * time.Microsecond
	DefaultMaxBatch  = 256
)

// Options are the settings of a Client. Only Address must be given.
type Options struct {
	// Address is where the service is: host:port, or a target of gRPC such as dns:///headgate.internal:8082.
	Address string
	// Token is what the service asks for. Default none.
	Token string
	// TLS is how the connection is encrypted. Default nil: it is not, which is for loopback and for networks of one's own.
	TLS *tls.Config
	// Deadline is how long a call may take, with what it waits for others. A caller's context may end it sooner. Default
	// DefaultDeadline.
	Deadline time.Duration
	// BatchWait is how long a call waits at most for others to travel with, while others are under way; if there are eight of
	// these, until one returns. Default DefaultBatchWait. Below zero every call travels alone.
	BatchWait time.Duration
	// MaxBatch is how many calls travel together at most; the service takes 1000 unless told otherwise. Default
	// DefaultMaxBatch.
	MaxBatch int
	// OnFailure is what RateLimit answers when the service does not: headgate.Open or headgate.Closed. Default the former.
	OnFailure headgate.Policy
	// Logger hears when the service stops answering, and when it answers again. Default slog's.
	Logger *slog.Logger
	// Dial are more options for the connection. Default none.
	Dial []grpc.DialOption
}

var errNoAddress = errors.New("client: no Address: want one such as 127.0.0.1:8082")

func (o *Options) fill() error {
	if o.Address == "" {
		return errNoAddress
	}
	if strings.TrimSpace(o.Token) != o.Token || strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("client: Token: want letters, digits and signs of ASCII, without spaces")
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Deadline < time.Millisecond {
		return fmt.Errorf("client: Deadline %s: want at least 1ms, or 0 for %s", o.Deadline, DefaultDeadline)
	}
	if o.BatchWait == 0 {
		o.BatchWait = DefaultBatchWait
	}
	if o.BatchWait >= o.Deadline {
		return fmt.Errorf("client: BatchWait %s: want less than Deadline, which is %s", o.BatchWait, o.Deadline)
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = DefaultMaxBatch
	}
	if o.MaxBatch < 1 || o.MaxBatch > 100_000 {
		return fmt.Errorf("client: MaxBatch %d: want 1 to 100000, or 0 for %d", o.MaxBatch, DefaultMaxBatch)
	}
	if o.OnFailure != headgate.Open && o.OnFailure != headgate.Closed {
		return fmt.Errorf("client: OnFailure %s: want open or closed: rules are known to the service alone", o.OnFailure)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}
