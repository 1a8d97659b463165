package downstream

import (
	"bufio"
	"crypto/tls"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestConnectionsYieldOnlyAfterOneHasWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{epoch: time.Now()}
		time.Sleep(time.Hour)
		if s.mayYield(s.now()) {
			t.Error("yields, but no connection has waited")
		}
		s.waited.Store(int64(s.now()))
		if !s.mayYield(s.now()) {
			t.Error("does not yield, although a connection has just waited")
		}
		time.Sleep(yieldTime)
		if s.mayYield(s.now()) {
			t.Errorf("still yields %v after a connection has waited", yieldTime)
		}
	})
}

func TestServerNoticesThatConnectionsWait(t *testing.T) {
	for name, change := range map[string]func(*Server){"plain": func(*Server) {}, "TLS": withTLS(t)} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(http.ResponseWriter, *http.Request) {}, change)
			c, r := dial(t, s.addr)
			if name == "TLS" {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
				r = bufio.NewReader(c)
			}
			for range 3 {
				before := s.waited.Load()
				await.True(t, "a connection has waited", func() bool {
					send(t, c, get("/"))
					receive(t, r, "GET")
					return s.waited.Load() > before
				})
			}
		})
	}
}
