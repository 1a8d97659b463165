package site

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// A Front is a server that answers requests, from its upstream or by itself.
type Front struct {
	// Name is short and unique, title is for tables.
	Name, Title string
	Role        harness.Role
	// Program is whose version is printed; empty for what is written here.
	Program string
	// Refuses is set if it refuses all requests.
	Refuses bool
	// HTTP2 is set if it answers over HTTP/2 and TLS only.
	HTTP2 bool
	// Open starts it.
	Open func(ctx context.Context, s *Site) (RunningServer, error)
}

// An OpenFront is one that serves.
type OpenFront struct {
	Front
	RunningServer
}

// OpenAll opens fronts and sees that each answers as it should.
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

// Fits returns an error if what wrk saw of a front is not what it is to do. A limit that lets one pass every minute
// still refuses everybody.
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

// proven returns an error if a front does not answer as it should, soon. One that is to refuse everybody may need a
// request or two until it does.
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
