package grpcapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/proto/grpcwire"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// junk is a message of arbitrary bytes.
type junk struct{ b []byte }

func (j *junk) MarshalWire(dst []byte) ([]byte, error) { return append(dst, j.b...), nil }

func (j *junk) UnmarshalWire(b []byte) error {
	j.b = bytes.Clone(b)
	return nil
}

var forceWire = grpc.ForceCodecV2(grpcwire.Codec)

// drained closes a stream and returns its error, if any.
func drained(stream grpc.ClientStream) error {
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(new(headgatev1.StreamResponse)); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func TestWrongTokensAreThrottled(t *testing.T) {
	_, address := start(t, Config{Token: newToken(t), Logins: newLogins(t, 10), Store: newStore(t, nil)})
	call := func(conn *grpc.ClientConn, token string) codes.Code {
		ctx := metadata.AppendToOutgoingContext(patient(t), "authorization", "Bearer "+token)
		_, err := headgatev1.NewRateLimiterClient(conn).RateLimit(ctx, ask("a", "/"))
		return status.Code(err)
	}
	knows, guesses := dial(t, address), dial(t, address)
	if got := call(knows, tokenText); got != codes.OK {
		t.Fatalf("the token: got %v", got)
	}
	for range 10 {
		if got := call(guesses, "another-token-of-sixteen"); got != codes.Unauthenticated {
			t.Fatalf("a guess: got %v", got)
		}
	}
	if got := call(guesses, tokenText); got != codes.ResourceExhausted {
		t.Errorf("the token after ten guesses: got %v, want ResourceExhausted", got)
	}
	if got := call(knows, tokenText); got != codes.OK {
		t.Errorf("the token on a connection that has shown it before: got %v, want OK", got)
	}
}

func TestEveryCallButHealthCheckNeedsTheToken(t *testing.T) {
	store := newStore(t, nil)
	_, address := start(t, Config{Token: newToken(t), Store: store})
	conn := dial(t, address)
	limiter := headgatev1.NewRateLimiterClient(conn)
	for name, tt := range map[string]struct {
		shown []string
		want  codes.Code
	}{
		"none":           {nil, codes.Unauthenticated},
		"the token":      {[]string{"Bearer " + tokenText}, codes.OK},
		"any case":       {[]string{"bearer " + tokenText}, codes.OK},
		"another":        {[]string{"Bearer another-token-of-sixteen"}, codes.Unauthenticated},
		"a part":         {[]string{"Bearer " + tokenText[:20]}, codes.Unauthenticated},
		"no scheme":      {[]string{tokenText}, codes.Unauthenticated},
		"two of them":    {[]string{"Bearer x", "Bearer " + tokenText}, codes.Unauthenticated},
		"another scheme": {[]string{"Basic " + tokenText}, codes.Unauthenticated},
	} {
		ctx := patient(t)
		for _, shown := range tt.shown {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", shown)
		}
		calls := map[string]func() error{
			"RateLimit": func() error { _, err := limiter.RateLimit(ctx, ask("a", "/")); return err },
			"Batch":     func() error { _, err := limiter.BatchRateLimit(ctx, &headgatev1.BatchRateLimitRequest{}); return err },
			"Store":     func() error { _, err := headgatev1.NewStoreClient(conn).Do(ctx, &headgatev1.DoRequest{}); return err },
			"Stream": func() error {
				stream, err := limiter.Stream(ctx)
				if err != nil {
					return err
				}
				return drained(stream)
			},
			"BatchStream": func() error {
				stream, err := limiter.BatchStream(ctx)
				if err != nil {
					return err
				}
				return drained(stream)
			},
			"Watch": func() error {
				ctx, end := context.WithCancel(ctx)
				defer end()
				watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
				if err != nil {
					return err
				}
				_, err = watch.Recv()
				return err
			},
			"reflection": func() error {
				stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
				if err != nil {
					return err
				}
				return drained(stream)
			},
		}
		for call, do := range calls {
			if err := do(); status.Code(err) != tt.want {
				t.Errorf("%s with %s: got %v, want %v", call, name, err, tt.want)
			}
		}
		if got, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil ||
			got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health with %s: got %v, %v; want SERVING", name, got, err)
		}
	}
}
