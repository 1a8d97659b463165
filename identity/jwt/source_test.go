package jwt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A publisher answers for the URL of the keys, without a network.
type publisher struct {
	mu     sync.Mutex
	keys   []byte
	status int
	header http.Header
	err    error
	hangs  bool
	asked  []time.Time
}

func (p *publisher) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.asked = append(p.asked, time.Now())
	keys, status, header, err, hangs := p.keys, p.status, p.header, p.err, p.hangs
	p.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Millisecond) // no answer comes at once
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: header, Body: io.NopCloser(bytes.NewReader(keys)), Request: r,
	}, nil
}

func (p *publisher) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *publisher) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// published returns a verifier by URL in a bubble, whose clock begins in 2000.
func published(t *testing.T, p *publisher, c Config) *Verifier {
	t.Helper()
	c.JWKSURL, c.Client = "https://login.example/jwks.json?secret=1", &http.Client{Transport: p}
	if c.Logger == nil {
		c.Logger = quiet
	}
	c.NoExpiry = true
	v, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func simple(i *issuer, kid string) string {
	return sign("ES256", i.p256, `{"alg":"ES256","kid":"`+kid+`"}`, `{"sub":"alice"}`)
}

func TestKeysAreFetchedAndFetchedAgain(t *testing.T) {
	old, next := theIssuer(), newIssuer()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{keys: old.jwks(), status: 200}
		v := published(t, p, Config{})
		if _, err := v.Verify(simple(old, "p256")); !errors.Is(err, ErrNoKeys) {
			t.Errorf("before there are keys: %v, want %v", err, ErrNoKeys)
		}
		if err := v.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		claim(t, v, simple(old, "p256"), "sub")
		p.set(func() { p.keys = next.jwks() })
		time.Sleep(DefaultRefresh - time.Second)
		claim(t, v, simple(old, "p256"), "sub")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		claim(t, v, simple(next, "p256"), "sub")
		if _, err := v.Verify(simple(old, "p256")); !errors.Is(err, ErrSignature) {
			t.Errorf("by a key that is gone: %v, want %v", err, ErrSignature)
		}
		if got := p.times(); got != 2 {
			t.Errorf("asked %d times, want 2", got)
		}
		if v.Err() != nil {
			t.Error(v.Err())
		}
	})
}

func TestTheSameKeysKeepWhatWasSeen(t *testing.T) {
	i := theIssuer()
	synctest.Test(t, func(t *testing.T) {
		v := published(t, &publisher{keys: i.jwks(), status: 200}, Config{})
		if err := v.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		token := simple(i, "p256")
		first := must(v.Verify(token))
		time.Sleep(DefaultRefresh + time.Second)
		synctest.Wait()
		if again := must(v.Verify(token)); again != first {
			t.Error("the same keys were fetched, and the token was verified again")
		}
	})
}

func TestAnUnknownKeyIsAskedForSoonButNotOften(t *testing.T) {
	old, next := theIssuer(), newIssuer()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{keys: old.jwks(), status: 200}
		v := published(t, p, Config{})
		if err := v.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.set(func() { p.keys = bytes.ReplaceAll(next.jwks(), []byte(`"p256"`), []byte(`"new"`)) })
		start := time.Now()
		for range 600 { // someone sends names of keys that there are not, for a minute
			_, err := v.Verify(simple(next, "made-up"))
			if !errors.Is(err, ErrKey) {
				t.Fatalf("error %v, want %v", err, ErrKey)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		claim(t, v, simple(next, "new"), "sub")
		if got, most := p.times()-1, int(time.Since(start)/minReadPause); got < 1 || got > most {
			t.Errorf("asked %d times in %v, want 1 to %d", got, time.Since(start), most)
		}
		// A token that is known well wakes nobody.
		before := p.times()
		time.Sleep(time.Minute)
		claim(t, v, simple(next, "new"), "sub")
		if got := p.times() - before; got > 1 { // one may have been under way
			t.Errorf("asked %d times more, want none", got)
		}
	})
}

func TestKeysOutliveTheirPublisherForAWhile(t *testing.T) {
	i := theIssuer()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &publisher{keys: i.jwks(), status: 200}
		v := published(t, p, Config{MaxStale: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err := v.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.set(func() { p.status = 503 })
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		claim(t, v, simple(i, "p256"), "sub")
		if err := v.Err(); err == nil || !strings.Contains(err.Error(), "want 200") {
			t.Errorf("Err() = %v, want the status", err)
		}
		if !strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), "secret") {
			t.Errorf("the log says %q, want a warning without the query", log.String())
		}
		// Every 15 minutes at first; then after 1, 2, 4 ... seconds, and every minute.
		if got := p.times(); got < 44 || got > 56 {
			t.Errorf("asked %d times, want about one a minute", got)
		}
		time.Sleep(2 * time.Minute)
		if _, err := v.Verify(simple(i, "p256")); !errors.Is(err, ErrNoKeys) {
			t.Errorf("keys that are stale: %v, want %v", err, ErrNoKeys)
		}
		p.set(func() { p.status = 200 })
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		claim(t, v, simple(i, "p256"), "sub")
		if v.Err() != nil {
			t.Error(v.Err())
		}
	})
}

func TestBadAnswersAreNoKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		p    *publisher
		want string
	}{
		"away":         {&publisher{err: errors.New("connection refused")}, "connection refused"},
		"hangs":        {&publisher{hangs: true}, "deadline exceeded"},
		"not found":    {&publisher{status: 404}, "want 200"},
		"redirects":    {&publisher{status: 302, header: http.Header{"Location": {"http://evil.example/"}}}, "want the URL of the keys themselves"},
		"no JSON":      {&publisher{status: 200, keys: []byte("<html>")}, "not a set of keys"},
		"too long":     {&publisher{status: 200, keys: bytes.Repeat([]byte(" "), 2<<20)}, "more than 1048576 bytes"},
		"no keys":      {&publisher{status: 200, keys: []byte(`{"keys":[]}`)}, "none of 0 keys"},
		"too many":     {&publisher{status: 200, keys: []byte(`{"keys":[` + strings.Repeat(`{},`, 100) + `{}]}`)}, "at most 100"},
		"only secrets": {&publisher{status: 200, keys: []byte(`{"keys":[{"kty":"oct","k":"` + rfcSecret + `"}]}`)}, "a secret that is published"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := published(t, tt.p, Config{})
				ctx, cancel := context.WithTimeout(t.Context(), fetchTimeout+time.Second)
				defer cancel()
				err := v.Wait(ctx)
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret=1") {
					t.Errorf("Wait = %v, want %q", err, tt.want)
				}
				if _, err := v.Verify(simple(theIssuer(), "p256")); !errors.Is(err, ErrNoKeys) {
					t.Errorf("Verify: %v, want %v", err, ErrNoKeys)
				}
			})
		})
	}
}

func TestCloseEndsAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := published(t, &publisher{hangs: true}, Config{})
		synctest.Wait()
		start := time.Now()
		for range 2 {
			v.Close()
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %v, want none", took)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := published(t, &publisher{hangs: true}, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := v.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v, want %v", err, context.DeadlineExceeded)
		}
	})
	v := verifier(t, Config{Unverified: true})
	defer v.Close()
	if err := errors.Join(v.Wait(t.Context()), v.Err()); err != nil {
		t.Error(err)
	}
}

func TestKeysFromAServer(t *testing.T) {
	i := theIssuer()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/jwks.json" {
			http.Redirect(w, r, "/jwks.json", http.StatusFound)
			return
		}
		_, _ = w.Write(i.jwks())
	}))
	defer server.Close()
	v, err := New(Config{JWKSURL: server.URL + "/jwks.json", NoExpiry: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim(t, v, simple(i, "p256"), "sub")
}

func TestKeysFromAFile(t *testing.T) {
	old, next := theIssuer(), newIssuer()
	file := filepath.Join(t.TempDir(), "jwks.json")
	write := func(data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(Config{JWKSFile: file}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v, want %v", err, os.ErrNotExist)
	}
	write([]byte("{}"))
	if _, err := New(Config{JWKSFile: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("no keys: %v, want an error that names the file", err)
	}
	write(old.jwks())
	synctest.Test(t, func(t *testing.T) {
		v, err := New(Config{JWKSFile: file, NoExpiry: true, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		claim(t, v, simple(old, "p256"), "sub")
		write([]byte("half a file"))
		time.Sleep(DefaultFileRefresh + time.Second)
		synctest.Wait()
		claim(t, v, simple(old, "p256"), "sub")
		if v.Err() == nil {
			t.Error("Err() = nil, want why the file cannot be read")
		}
		write(next.jwks())
		time.Sleep(DefaultFileRefresh + time.Second)
		synctest.Wait()
		claim(t, v, simple(next, "p256"), "sub")
	})
}

func TestAKeyFileThatEverybodyCanWriteIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such mode")
	}
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, theIssuer().jwks(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{JWKSFile: file}); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("New = %v, want an error that says how to correct the mode", err)
	}
}

func TestSecretsFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jwks.json")
	secret := theIssuer().secret
	if err := os.WriteFile(file, []byte(`{"keys":[{"kty":"oct","kid":"s","alg":"HS256","k":"`+encode(secret)+`"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := New(Config{JWKSFile: file, NoExpiry: true, Algorithms: []string{"HS256", "HS512", "ES256"}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if got := claim(t, v, sign("HS256", secret, `{"alg":"HS256","kid":"s"}`, `{"sub":"x"}`), "sub"); got != "x" {
		t.Errorf("sub = %s, want x", got)
	}
	if _, err := v.Verify(sign("HS512", secret, `{"alg":"HS512","kid":"s"}`, `{"sub":"x"}`)); !errors.Is(err, ErrKey) {
		t.Errorf("by an algorithm that the key is not for: %v, want %v", err, ErrKey)
	}
}
