package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
)

// A Client calls a decision service. Create one with New. It is safe for concurrent use, and one is enough for a
// program.
type Client struct {
	options        Options
	conn           *grpc.ClientConn
	ruleCalls      *batcher // batches RateLimit calls
	storeCalls     *batcher // batches calls of Store
	circuit        *gobreaker.TwoStepCircuitBreaker[any]
	failing        atomic.Bool // a call has failed and none has succeeded since; the circuit is used only then
	created        time.Time
	noStreamsUntil atomic.Int64   // streams are not used before this time, in ns since created; 0 if they are supported
	streamRetry    time.Duration  // time after which streams are tried again if the service did not support them
	releases       sync.WaitGroup // goroutines that release the slots of callers that stopped waiting
	closing        sync.Once
	ids            struct {
		sync.Mutex
		known map[string]string // maps each rule id to itself, so that decisions with the same id share one string
	}
}

// probeInterval is how often an unreachable service is probed.
const probeInterval = 500 * time.Millisecond

// New returns a Client. It does not wait for the service. The error describes invalid Options.
func New(o Options) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Client{options: o, created: time.Now(), streamRetry: maxStreamAge}
	c.ids.known = make(map[string]string)
	conn, err := grpc.NewClient(o.Address, c.dialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c.conn = conn
	c.ruleCalls = newBatcher(&c.options, c.sendRequests, c.releaseLost)
	c.storeCalls = newBatcher(&c.options, c.sendOperations, c.giveBackLost)
	c.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: o.Address, MaxRequests: 1, Timeout: probeInterval,
		ReadyToTrip:   func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= 5 },
		IsExcluded:    func(err error) bool { return errors.Is(err, errCallerGone) },
		OnStateChange: c.logCircuit,
	})
	return c, nil
}

func (c *Client) dialOptions() []grpc.DialOption {
	o := &c.options
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(grpcwire.Codec), grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}),
		// A service that was restarted is soon reachable again, so delays are short. Jitter keeps its clients
		// from connecting all at the same time.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.3,
				MaxDelay: 2 * time.Second,
			},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithDisableServiceConfig(),
	}
	if o.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer{"authorization": "Bearer " + o.Token}))
	}
	return append(options, o.Dial...)
}

// A bearer adds a token to the metadata of each call.
type bearer map[string]string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return b, nil
}

// RequireTransportSecurity returns false, because a token may be sent without TLS on loopback. Options.TLS enables TLS.
func (bearer) RequireTransportSecurity() bool { return false }

// Close closes the connection. Calls that are waiting return headgate.ErrClosed. Closing again does nothing.
func (c *Client) Close() (err error) {
	c.closing.Do(func() {
		c.ruleCalls.close()
		c.storeCalls.close()
		c.releases.Wait()
		err = c.conn.Close()
	})
	return err
}

// logCircuit logs a change of the circuit.
func (c *Client) logCircuit(service string, _, to gobreaker.State) {
	switch to {
	case gobreaker.StateOpen:
		c.options.Logger.Warn("decision service unreachable, deciding by policy", "service", service,
			"policy", c.options.OnFailure.String())
	case gobreaker.StateClosed:
		c.options.Logger.Info("decision service reachable again", "service", service)
	}
}

// connectionBroke reports whether a call failed because the connection broke.
func connectionBroke(err error) bool {
	return err != nil && status.Code(err) == codes.Unavailable
}

// isServiceFailure reports whether the service failed, as opposed to an invalid call.
func isServiceFailure(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented,
		codes.Canceled:
		return false
	}
	return !errors.Is(err, headgate.ErrClosed)
}
