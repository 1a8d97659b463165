package site

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// A Front is a server that responds with the response of its upstream, or with its own.
type Front struct {
	// Name is short and unique, title is for tables.
	Name, Title string
	Role        harness.Role
	// Program is the program whose version is reported. It is empty for servers of this benchmark.
	Program string
	// Refuses is set if the front denies all requests.
	Refuses bool
	// HTTP2 is set if the front supports only HTTP/2 over TLS.
	HTTP2 bool
	// Open starts it.
	Open func(ctx context.Context, s *Site) (RunningServer, error)
}

// An OpenFront is a running front.
type OpenFront struct {
	Front
	RunningServer
}

// OpenAll opens fronts and checks their responses.
func (s *Site) OpenAll(ctx context.Context, list []Front, tell func(name string)) ([]*OpenFront, error) {
	var opened []*OpenFront
	for _, f := range list {
		tell(f.Name)
		at, err := f.Open(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", f.Name, err)
		}
		o := &OpenFront{Front: f, RunningServer: at}
		if err := o.proven(ctx); err != nil {
			return nil, fmt.Errorf("try %s: %w", f.Name, err)
		}
		opened = append(opened, o)
	}
	return opened, nil
}

// Fits returns an error if the responses that wrk has received from a front are wrong. A front that must deny all
// requests may allow one per minute.
func (f *OpenFront) Fits(run WrkRun) error {
	if err := run.Broken(); err != nil {
		return err
	}
	passed := run.Requests - run.Refused
	switch {
	case f.Refuses && passed > max(1, run.Requests/1000):
		return fmt.Errorf("%d of %d requests passed, want none", passed, run.Requests)
	case !f.Refuses && run.Refused > 0:
		return fmt.Errorf("%d of %d requests were answered with an error, want none", run.Refused, run.Requests)
	}
	return nil
}

// proven returns an error if the responses of a front are wrong. A front that must deny all requests may first need a
// request or two.
func (f *OpenFront) proven(ctx context.Context) error {
	want := http.StatusOK
	if f.Refuses {
		want = http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(ctx, startupTime)
	defer cancel()
	for {
		ask := AskOnce
		if f.HTTP2 {
			ask = AskOnceHTTP2
		}
		err := ask(ctx, f.Address, want)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}
