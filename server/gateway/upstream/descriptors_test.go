package upstream

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var errNoDescriptor = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}

func TestRequestWithoutDescriptorWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		connect := pipes(t, gate)
		var dials atomic.Int64
		p := newPool(t, Config{
			Address: "a:80", WaitTimeout: time.Minute, HeaderTimeout: time.Hour,
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) > 1 {
					return nil, errNoDescriptor
				}
				return connect(ctx, network, address)
			},
		})
		var served sync.WaitGroup
		request := func() {
			if _, err := get(t.Context(), p); err != nil {
				t.Error(err)
			}
		}
		served.Go(request)
		synctest.Wait()
		served.Go(request)
		synctest.Wait()
		if s := p.Stats(); s.Waiting != 1 {
			t.Errorf("got %d waiting, want 1", s.Waiting)
		}
		close(gate)
		served.Wait()
	})
}

func TestNoDescriptorAndNoConnectionIsBusy(t *testing.T) {
	p := newPool(t, Config{
		Address: "a:80",
		Dial:    func(context.Context, string, string) (net.Conn, error) { return nil, errNoDescriptor },
	})
	_, err := get(t.Context(), p)
	if fault(err) != FaultBusy || status(err) != http.StatusServiceUnavailable {
		t.Errorf("got %v with status %d, want %v with %d", err, status(err), FaultBusy, http.StatusServiceUnavailable)
	}
}
