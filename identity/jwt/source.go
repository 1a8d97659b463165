package jwt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/secretfile"
)

const (
	fetchTimeout = 5 * time.Second
	// minReadPause is the minimum time between two reads of the keys. Tokens with unknown keys could otherwise cause
	// many reads.
	minReadPause = 10 * time.Second
	// The pause after a failure doubles from minRetryPause to maxRetryPause.
	minRetryPause = time.Second
	maxRetryPause = time.Minute
)

// A source reads keys regularly, from a URL or a file.
type source struct {
	config *Config
	name   string // for errors and logs
	fetch  func(context.Context) ([]byte, error)
	wake   chan struct{} // refresh sends on it
	ready  chan struct{} // closed when the first keys have been read

	set       atomic.Pointer[keySet]
	fetchedAt atomic.Int64 // when set was last read, in nanoseconds since 1970

	mu   sync.Mutex // guards the following
	data []byte     // the JSON text of set
	err  error      // of the latest attempt to read keys
}

func newSource(config *Config) *source {
	s := &source{config: config, wake: make(chan struct{}, 1), ready: make(chan struct{})}
	if config.JWKSFile != "" {
		s.name, s.fetch = "keys in "+config.JWKSFile, s.readFile
		return s
	}
	client := http.Client{}
	if config.Client != nil {
		client = *config.Client
	}
	if client.Timeout == 0 {
		client.Timeout = fetchTimeout
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.name, s.fetch = "keys from "+redacted(config.JWKSURL), func(ctx context.Context) ([]byte, error) {
		return fetchURL(ctx, &client, config.JWKSURL)
	}
	return s
}

// redacted returns a URL without parts that may be secret.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "JWKSURL"
	}
	u.RawQuery = ""
	return u.Redacted()
}

// readFile reads the file. Anyone who can write to the file can sign tokens, so readFile checks its permissions as
// those of a file with a secret.
func (s *source) readFile(context.Context) ([]byte, error) {
	if err := secretfile.Check(s.config.JWKSFile); err != nil {
		return nil, err
	}
	f, err := os.Open(s.config.JWKSFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxSetBytes+1))
}

func fetchURL(ctx context.Context, client *http.Client, from string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	request.Close = true // the next request follows much later, so the connection is not kept
	response, err := client.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err // the URL may contain secrets, and the caller adds the name
		}
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		if to := response.Header.Get("Location"); to != "" {
			return nil, fmt.Errorf("status %s to %s: want the URL of the keys themselves", response.Status, quoteShort(to))
		}
		return nil, fmt.Errorf("status %s: want 200", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxSetBytes+1))
}

// load reads the keys once.
func (s *source) load(ctx context.Context) error {
	data, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	// If the keys have not changed, keep the set, so that cached tokens stay valid.
	if err == nil && (s.data == nil || !bytes.Equal(data, s.data)) {
		var set *keySet
		if set, err = parseKeys(data, s.config.JWKSFile != ""); err == nil {
			s.set.Store(set)
			s.data = data
		}
	}
	if err != nil {
		s.err = fmt.Errorf("%s: %w", s.name, err)
		return s.err
	}
	s.err = nil
	s.fetchedAt.Store(s.config.Now().UnixNano())
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	return nil
}

// keys returns the keys in use, or nil if there are none or they are stale.
func (s *source) keys(now time.Time) *keySet {
	set := s.set.Load()
	if set != nil && now.UnixNano()-s.fetchedAt.Load() > int64(s.config.MaxStale) {
		return nil
	}
	return set
}

// refresh makes run read the keys again soon. It does not wait for this.
func (s *source) refresh() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *source) lastErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *source) wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	default:
	}
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		if err := s.lastErr(); err != nil {
			return fmt.Errorf("jwt: wait for keys: %w", err)
		}
		return fmt.Errorf("jwt: wait for %s: %w", s.name, ctx.Err())
	}
}

// run reads the keys regularly until ctx ends.
func (s *source) run(ctx context.Context) {
	retry := minRetryPause
	if s.set.Load() != nil && !s.pause(ctx, s.config.Refresh) { // New has just read the keys
		return
	}
	for {
		err := s.load(ctx)
		if ctx.Err() != nil {
			return
		}
		next := s.config.Refresh
		if err == nil {
			retry = minRetryPause
		} else {
			next = min(retry, s.config.Refresh)
			retry = min(2*retry, maxRetryPause)
			s.config.Logger.Warn("cannot read the keys that verify tokens", "err", err, "again_in", next)
		}
		if !s.pause(ctx, next) {
			return
		}
	}
}

// pause waits for d, or until refresh is called. It waits for at least minReadPause, unless d is shorter. It returns
// false when ctx ends.
func (s *source) pause(ctx context.Context, d time.Duration) bool {
	minimum := min(minReadPause, d)
	return sleep(ctx, minimum, nil) && sleep(ctx, d-minimum, s.wake)
}

// sleep waits for d, or until wake receives. It returns false when ctx ends.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}
