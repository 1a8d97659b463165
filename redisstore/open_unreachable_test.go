package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

func TestMissingServerIsNamed(t *testing.T) {
	addr := freeAddr(t)
	for _, u := range []string{"redis://" + addr, "redis-cluster://" + addr, "redis-sentinel://" + addr + "/m"} {
		err := whyNotOpen(t, u, Options{})
		says(t, err, addr, "nothing listens", "start it", "Options.StartUnreachable")
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v is not ErrUnreachable", u, err)
		}
	}
	notOpen(t, "unix:///does/not/exist", Options{}, "/does/not/exist", "nothing listens", "check the path in the URL")
	notOpen(t, "redis://host.invalid", Options{}, "host.invalid:6379", "name that is not found")
}

func TestHungServerIsNamed(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	server.Pause()
	defer server.Resume()
	begin := time.Now()
	err := whyNotOpen(t, server.URL()+"?dial_timeout=200ms", Options{})
	says(t, err, server.Addr(), "cannot be reached in time", "Options.StartUnreachable")
	if took := time.Since(begin); took > soon || !errors.Is(err, ErrUnreachable) {
		t.Errorf("after %v: %v", took, err)
	}
}

func TestOpenObeysItsContext(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := Open(ctx, server.URL()+"?dial_timeout=1m", Options{})
	if took := time.Since(begin); took > soon || !errors.Is(err, ErrUnreachable) {
		t.Errorf("after %v: %v", took, err)
	}
	if _, err := Open(nil, server.URL(), Options{}); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // nil is what is tested
		t.Errorf("nil context: %v", err)
	}
}

func TestStoreStartsWhileRedisIsUnreachable(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (url string, back func()){
		"standalone": func(t *testing.T) (string, func()) {
			s := redistest.Standalone(t, redistest.Options{MaxMemory: 100 << 20, MaxMemoryPolicy: "allkeys-lru"})
			s.Kill()
			return s.URL(), s.Restart
		},
		"hanging": func(t *testing.T) (string, func()) {
			s := redistest.Standalone(t, redistest.Options{MaxMemory: 100 << 20, MaxMemoryPolicy: "allkeys-lru"})
			s.Pause()
			return s.URL() + "?dial_timeout=200ms", s.Resume
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, back := start(t)
			var log logbook.Book
			s := open(t, u, Options{StartUnreachable: true, Secret: testSecret, Logger: log.Logger()})
			begin := time.Now()
			err := take(within(t, unhurried), s, "alice")
			if took := time.Since(begin); !errors.Is(err, ErrUnreachable) || took > soon {
				t.Errorf("while it is away, after %v: %v", took, err)
			}
			if _, err := s.Health(within(t, unhurried)); err != nil {
				t.Errorf("Health: %v", err)
			}
			back()
			took := await.NoError(t, "not so yet", func() error { return take(within(t, time.Second), s, "alice") })
			t.Logf("worked %v after it came back", took)
			if took > soon {
				t.Errorf("worked %v after it came back; want %v at most", took, soon)
			}
			await.NoError(t, "not so yet", func() error {
				if len(s.Warnings()) == 0 || !strings.Contains(log.String(), "redis reachable") {
					return fmt.Errorf("not probed yet; warnings %v, log %s", s.Warnings(), &log)
				}
				return nil
			})
		})
	}
}

func TestClusterAndSentinelsMayBeUnreachableAtFirst(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	for name, set := range map[string]struct {
		url     string
		servers []*redistest.Server
	}{
		"cluster":  {cluster.URL(), cluster.Servers()},
		"sentinel": {sentinels.URL(), append(sentinels.Sentinels(), sentinels.Servers()...)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range set.servers {
				s.Pause()
			}
			s := open(t, set.url+"?dial_timeout=200ms", Options{StartUnreachable: true, Secret: testSecret})
			if err := take(within(t, time.Second), s, "alice"); !errors.Is(err, ErrUnreachable) {
				t.Errorf("while they are away: %v", err)
			}
			if _, err := s.Health(within(t, time.Second)); !errors.Is(err, ErrUnreachable) {
				t.Errorf("Health while they are away: %v", err)
			}
			for _, s := range set.servers {
				s.Resume()
			}
			took := await.NoError(t, "not so yet", func() error { return take(within(t, time.Second), s, "alice") })
			t.Logf("worked %v after they came back", took)
		})
	}
}

func TestServerThatIsNotRedisIsNamed(t *testing.T) {
	t.Parallel()
	for what, greeting := range map[string]string{
		"SSH":  "SSH-2.0-OpenSSH_9.6\r\n",
		"HTTP": "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"SMTP": "220 mail.example.com ESMTP\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var greeter sync.WaitGroup
			t.Cleanup(greeter.Wait)
			t.Cleanup(func() { _ = listener.Close() })
			greeter.Go(func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					greeter.Go(func() {
						defer func() { _ = conn.Close() }()
						_, _ = io.WriteString(conn, greeting)
						_, _ = io.Copy(io.Discard, conn) // until we hang up, so that the greeting arrives
					})
				}
			})
			addr := listener.Addr().String()
			notOpen(t, "redis://"+addr, Options{DialTimeout: unhurried}, addr, "does not speak the Redis protocol", "check the port")
		})
	}
}
