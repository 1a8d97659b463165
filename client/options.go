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

// Defaults of Options.
const (
	DefaultDeadline  = 100 * time.Millisecond
	DefaultBatchWait = 500 * time.Microsecond
	DefaultMaxBatch  = 256
)

// Options configure a Client. Only Address is required.
type Options struct {
	// Address is the address of the service: host:port, or a gRPC target such as dns:///headgate.internal:8082.
	Address string
	// Token is the service's token. Default none.
	Token string
	// TLS configures encryption. Default nil: none, for loopback and private networks.
	TLS *tls.Config
	// Deadline limits the time of a call, including the wait for a batch. A caller's context may end it sooner. Default
	// DefaultDeadline.
	Deadline time.Duration
	// BatchWait limits how long a call waits for others to join its batch. Without calls under way, it is sent at once;
	// with eight, it waits until one returns. Default DefaultBatchWait. If it is negative, every call is sent alone.
	BatchWait time.Duration
	// MaxBatch limits the calls of a batch; the service accepts 1000 by default. Default DefaultMaxBatch.
	MaxBatch int
	// OnFailure decides the result of RateLimit when the service fails: headgate.Open or headgate.Closed. Default
	// headgate.Open.
	OnFailure headgate.Policy
	// Logger logs when the service becomes unreachable, and reachable again. Default slog.Default().
	Logger *slog.Logger
	// Dial are further options for the connection. Default none.
	Dial []grpc.DialOption
}

var errNoAddress = errors.New("client: no Address: want one such as 127.0.0.1:8082")

// validate checks the options and sets defaults.
func (o *Options) validate() error {
	if o.Address == "" {
		return errNoAddress
	}
	if strings.TrimSpace(o.Token) != o.Token ||
		strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("client: Token: want ASCII letters, digits and punctuation, without spaces")
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
		return fmt.Errorf("client: OnFailure %s: want open or closed: only the service knows the rules", o.OnFailure)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}
