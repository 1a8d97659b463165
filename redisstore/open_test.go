package redisstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
)

// tryOpen opens a store, and closes it with the test.
func tryOpen(t testing.TB, url string, o Options) (*Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s, err := Open(ctx, url, o)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

const (
	// unhurried is for what must not fail only because the machine is busy.
	unhurried = 30 * time.Second
	// soon is how long what happens within a second on a quiet machine may take on any.
	soon = 10 * time.Second
)

// notOpen expects that a store cannot be opened, in words that say why.
func notOpen(t *testing.T, url string, o Options, words ...string) {
	t.Helper()
	says(t, whyNotOpen(t, url, o), words...)
}

func whyNotOpen(t *testing.T, url string, o Options) error {
	t.Helper()
	_, err := tryOpen(t, url, o)
	if err == nil {
		t.Fatalf("%s can be opened", url)
	}
	return err
}

// says expects words in an error.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v\nwant %q in it", err, w)
		}
	}
}

// take takes one unit for a client.
func take(ctx context.Context, s *Store, key string) error {
	d, err := s.Take(ctx, headgate.Check{Key: key, Limit: headgate.PerSecond(1_000_000), Cost: 1})
	if err == nil && !d.Allowed {
		err = fmt.Errorf("denied: %+v", d)
	}
	return err
}

// within returns a context that ends after a while.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually tries until there is no error, and returns how long that took.
func eventually(t testing.TB, try func() error) time.Duration {
	t.Helper()
	const most = 2 * time.Minute
	start := time.Now()
	for {
		err := try()
		took := time.Since(start)
		if err == nil {
			return took
		}
		if took > most {
			t.Fatalf("not within %v: %v", most, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// A logbook is a log to look into.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// freeAddr returns an address where nobody listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestEveryKindOfServerIsOpened(t *testing.T) {
	plain := redistest.Standalone(t, redistest.Options{})
	secured := redistest.Standalone(t, redistest.Options{TLS: true, Password: "hunter2"})
	ca := url.QueryEscape(secured.Certificates().CAFile)
	user := redistest.Standalone(t, redistest.Options{Users: []string{"alice on >p@ss/word ~hg* &* +@read +@write +@scripting +@connection +info +time +role"}})
	for name, u := range map[string]string{
		"tcp":                plain.URL(),
		"RESP2":              plain.URL() + "?protocol=2",
		"another database":   plain.URL() + "/3",
		"socket":             "unix://" + plain.Socket(),
		"TLS and password":   secured.URL() + "?tls_ca_file=" + ca,
		"RESP2 and password": secured.URL() + "?protocol=2&tls_ca_file=" + ca,
		"TLS by name":        strings.Replace(secured.URL(), "127.0.0.1", "localhost", 1) + "?tls_ca_file=" + ca,
		"user":               "redis://alice:p%40ss%2Fword@" + user.Addr(),
		"user with RESP2":    "redis://alice:p%40ss%2Fword@" + user.Addr() + "?protocol=2",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, u, Options{})
			if err := take(within(t, unhurried), s, "alice"); err != nil {
				t.Error(err)
			}
			if len(s.Warnings()) > 0 {
				t.Errorf("warnings: %v", s.Warnings())
			}
		})
	}
}

func TestTLSByOptions(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{TLS: true})
	s := open(t, server.URL(), Options{TLSConfig: server.Certificates().ClientConfig()})
	if err := take(within(t, unhurried), s, "alice"); err != nil {
		t.Error(err)
	}
}

func TestSentinelAndClusterAreOpenedWithPasswordAndTLS(t *testing.T) {
	t.Parallel()
	options := redistest.Options{TLS: true, Password: "hunter2"}
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{Server: options})
	cluster := redistest.Cluster(t, redistest.ClusterOptions{Server: options})
	for name, u := range map[string]string{
		"sentinel": sentinels.URL() + "?tls_ca_file=" + url.QueryEscape(sentinels.Sentinels()[0].Certificates().CAFile),
		"cluster":  cluster.URL() + "?tls_ca_file=" + url.QueryEscape(cluster.Servers()[0].Certificates().CAFile),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, u, Options{DialTimeout: unhurried})
			for i := range 50 {
				if err := take(within(t, unhurried), s, fmt.Sprint("client ", i)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestWrongPasswordsAreRefusedAtOnce(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Password: "right"})
	for _, protocol := range []string{"2", "3"} {
		for _, start := range []bool{false, true} {
			o := Options{StartAway: start, DialTimeout: unhurried}
			begin := time.Now()
			notOpen(t, "redis://"+server.Addr()+"?protocol="+protocol, o, server.Addr(), "wants a password", "redis://user:password@host")
			err := whyNotOpen(t, "redis://:wrong@"+server.Addr()+"?protocol="+protocol, o)
			says(t, err, server.Addr(), "does not accept user and password", "redis://user:password@host")
			notOpen(t, "redis://nobody:right@"+server.Addr()+"?protocol="+protocol, o, server.Addr(), "does not accept user and password")
			if took := time.Since(begin); took > unhurried/2 {
				t.Errorf("it took %v", took)
			}
			if strings.Contains(err.Error(), "wrong@") {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
}

func TestTLSThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	secured := redistest.Standalone(t, redistest.Options{TLS: true})
	plain := redistest.Standalone(t, redistest.Options{})
	strict := redistest.Standalone(t, redistest.Options{TLS: true, Config: []string{"tls-auth-clients yes"}})
	ca := "tls_ca_file=" + url.QueryEscape(secured.Certificates().CAFile)
	slow := Options{DialTimeout: unhurried} // a handshake takes its time on a busy machine

	err := whyNotOpen(t, secured.URL()+"?"+ca+"&tls_server_name=redis.example.com", slow)
	says(t, err, secured.Addr(), "certificate for another name", "tls_server_name")
	if !lasting(err) {
		t.Error("a wrong name counts as something that passes")
	}
	notOpen(t, secured.URL(), slow, secured.Addr(), "authority we don't know", "tls_ca_file")
	notOpen(t, strings.Replace(plain.URL(), "redis:", "rediss:", 1), Options{}, plain.Addr(), "TLS", "redis://")
	notOpen(t, strings.Replace(secured.URL(), "rediss:", "redis:", 1), slow, secured.Addr(), "hangs up on us", "rediss://")
	strictCA := "?tls_ca_file=" + url.QueryEscape(strict.Certificates().CAFile)
	notOpen(t, strict.URL()+strictCA, slow, strict.Addr(), "tls_cert_file")
	pair := "&tls_cert_file=" + url.QueryEscape(strict.Certificates().CertFile) + "&tls_key_file=" + url.QueryEscape(strict.Certificates().KeyFile)
	if _, err := tryOpen(t, strict.URL()+strictCA+pair, slow); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
}

func TestServerWithoutScriptsIsRefused(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{NoScripts: true})
	notOpen(t, server.URL(), Options{StartAway: true, DialTimeout: unhurried}, server.Addr(), "does not let its user run scripts", "ACL SETUSER", "+@scripting")
	renamed := redistest.Standalone(t, redistest.Options{Config: []string{`rename-command EVAL ""`}})
	notOpen(t, renamed.URL(), Options{StartAway: true, DialTimeout: unhurried}, renamed.Addr(), "has no Lua", "load its Lua module")
}

func TestReplicaIsRefused(t *testing.T) {
	primary := redistest.Standalone(t, redistest.Options{})
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Standalone(t, redistest.Options{Config: []string{"replicaof " + host + " " + port}})
	eventually(t, func() error {
		if replica.Info("replication")["master_link_status"] != "up" {
			return errors.New("no link yet")
		}
		return nil
	})
	notOpen(t, replica.URL(), Options{StartAway: true, DialTimeout: unhurried}, replica.Addr(), "is a replica of "+primary.Addr(), "give the primary's address")
}

func testKindOfURLAndServersMustAgree(t *testing.T, cluster *redistest.ClusterSet) {
	server := redistest.Standalone(t, redistest.Options{})
	o := Options{StartAway: true, DialTimeout: unhurried}
	notOpen(t, "redis-cluster://"+server.Addr(), o, server.Addr(), "is not of a cluster", "want redis://")
	notOpen(t, "redis-sentinel://"+server.Addr()+"/mymaster", o, server.Addr(), "is not a sentinel", "26379")
	notOpen(t, "redis://"+cluster.Servers()[0].Addr(), o, cluster.Servers()[0].Addr(), "is of a cluster", "want redis-cluster://")
}

func TestUnknownNameOfThePrimaryIsRefused(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, redistest.SentinelOptions{})
	u := strings.Replace(set.URL(), "/"+redistest.PrimaryName, "/nobody", 1)
	notOpen(t, u, Options{StartAway: true, DialTimeout: unhurried}, `knows no primary called "nobody"`, "SENTINEL MASTERS")
}

func TestSentinelsMayHaveTheirOwnPassword(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, redistest.SentinelOptions{Server: redistest.Options{Password: "theirs"}})
	for _, s := range set.Sentinels() {
		if _, err := s.Do("ACL", "SETUSER", "default", "resetpass", ">ours"); err != nil {
			t.Fatal(err)
		}
	}
	notOpen(t, set.URL(), Options{StartAway: true, DialTimeout: unhurried}, "127.0.0.1:", "wants a password", "sentinel_password")
	notOpen(t, set.URL()+"?sentinel_password=theirs", Options{StartAway: true, DialTimeout: unhurried}, "does not accept user and password", "sentinel_password")
	s := open(t, set.URL()+"?sentinel_password=ours", Options{Secret: testSecret, DialTimeout: unhurried})
	if err := take(within(t, unhurried), s, "alice"); err != nil {
		t.Error(err)
	}
}

func TestServerThatIsNotThereIsNamed(t *testing.T) {
	addr := freeAddr(t)
	for _, u := range []string{"redis://" + addr, "redis-cluster://" + addr, "redis-sentinel://" + addr + "/m"} {
		err := whyNotOpen(t, u, Options{})
		says(t, err, addr, "nobody listens", "start it", "Options.StartAway")
		if !errors.Is(err, ErrAway) {
			t.Errorf("%s: %v is not ErrAway", u, err)
		}
	}
	notOpen(t, "unix:///does/not/exist", Options{}, "/does/not/exist", "nobody listens")
	notOpen(t, "redis://host.invalid", Options{}, "host.invalid:6379", "name that is not found")
}

func TestServerThatHangsIsNamed(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	server.Pause()
	defer server.Resume()
	begin := time.Now()
	err := whyNotOpen(t, server.URL()+"?dial_timeout=200ms", Options{})
	says(t, err, server.Addr(), "cannot be reached in time", "Options.StartAway")
	if took := time.Since(begin); took > soon || !errors.Is(err, ErrAway) {
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
	if took := time.Since(begin); took > soon || !errors.Is(err, ErrAway) {
		t.Errorf("after %v: %v", took, err)
	}
	if _, err := Open(nil, server.URL(), Options{}); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // nil is what is tested
		t.Errorf("nil context: %v", err)
	}
}

func TestStoreStartsWhileRedisIsAway(t *testing.T) {
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
			var log logbook
			s := open(t, u, Options{StartAway: true, Secret: testSecret, Logger: log.logger()})
			begin := time.Now()
			err := take(within(t, unhurried), s, "alice")
			if took := time.Since(begin); !errors.Is(err, ErrAway) || took > soon {
				t.Errorf("while it is away, after %v: %v", took, err)
			}
			if _, err := s.Health(within(t, unhurried)); err != nil {
				t.Errorf("Health: %v", err)
			}
			back()
			took := eventually(t, func() error { return take(within(t, time.Second), s, "alice") })
			t.Logf("worked %v after it came back", took)
			if took > soon {
				t.Errorf("worked %v after it came back; want %v at most", took, soon)
			}
			eventually(t, func() error {
				if len(s.Warnings()) == 0 || !strings.Contains(log.String(), "redis is there") {
					return fmt.Errorf("not probed yet; warnings %v, log %s", s.Warnings(), &log)
				}
				return nil
			})
		})
	}
}

func TestClusterAndSentinelsMayBeAwayAtFirst(t *testing.T) {
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
			s := open(t, set.url+"?dial_timeout=200ms", Options{StartAway: true, Secret: testSecret})
			if err := take(within(t, time.Second), s, "alice"); !errors.Is(err, ErrAway) {
				t.Errorf("while they are away: %v", err)
			}
			if _, err := s.Health(within(t, time.Second)); !errors.Is(err, ErrAway) {
				t.Errorf("Health while they are away: %v", err)
			}
			for _, s := range set.servers {
				s.Resume()
			}
			took := eventually(t, func() error { return take(within(t, time.Second), s, "alice") })
			t.Logf("worked %v after they came back", took)
		})
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	before := runtime.NumGoroutine()
	for _, u := range []string{server.URL(), cluster.URL(), sentinels.URL(), "redis://" + freeAddr(t), "redis-cluster://" + freeAddr(t), "redis-sentinel://" + freeAddr(t) + "/m"} {
		s, err := Open(within(t, 3*unhurried), u, Options{StartAway: true, Secret: testSecret})
		if err != nil {
			t.Fatal(err)
		}
		_ = take(within(t, time.Second), s, "alice")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := take(within(t, time.Second), s, "alice"); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := s.Health(within(t, time.Second)); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("Health after Close: %v", err)
		}
	}
	eventually(t, func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("%d goroutines; there were %d", n, before)
		}
		return nil
	})
}

func TestCloseDoesNotWaitForServersThatHang(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	all := slices.Concat([]*redistest.Server{server}, cluster.Servers(), sentinels.Servers(), sentinels.Sentinels())
	for _, u := range []string{server.URL(), cluster.URL(), sentinels.URL()} {
		s, err := Open(within(t, 3*unhurried), u, Options{Secret: testSecret, DialTimeout: unhurried, Logger: (&logbook{}).logger()})
		if err != nil {
			t.Fatal(err)
		}
		for _, server := range all {
			server.Pause()
		}
		waiting := make(chan error, 1)
		go func() { waiting <- take(within(t, 2*unhurried), s, "alice") }()
		for i := range 5 {
			_ = take(within(t, 20*time.Millisecond), s, fmt.Sprint("client", i))
		}
		begin := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > soon {
			t.Errorf("%s: Close took %v, want no time", u, took)
		}
		if err := <-waiting; err == nil || time.Since(begin) > unhurried {
			t.Errorf("%s: a call that was under way: %v after %v", u, err, time.Since(begin))
		}
		for _, server := range all {
			server.Resume()
		}
	}
}

// A password that is changed, or a right that is taken away, shows at once in words that say what to do; and when it is given
// back all is well again without anybody's help.
func TestPasswordsAndRightsMayChange(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{Users: []string{"alice on >one ~* &* +@all"}})
	s := open(t, "redis://alice:one@"+server.Addr(), Options{Secret: testSecret, Logger: (&logbook{}).logger()})
	do := func(args ...string) {
		t.Helper()
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	works := func() error { return take(within(t, unhurried), s, "alice") }
	for _, tt := range []struct {
		take, give []string
		words      []string
	}{
		{[]string{"-@scripting"}, []string{"+@scripting"}, []string{"does not let its user do that", "ACL SETUSER"}},
		{[]string{"resetkeys", "~theirs*"}, []string{"~*"}, []string{"does not let its user do that", "~hg*"}},
	} {
		do(append([]string{"ACL", "SETUSER", "alice"}, tt.take...)...)
		says(t, works(), append(tt.words, server.Addr())...)
		do(append([]string{"ACL", "SETUSER", "alice"}, tt.give...)...)
		if err := works(); err != nil {
			t.Errorf("after %q and %q: %v", tt.take, tt.give, err)
		}
	}
	do("ACL", "SETUSER", "alice", "resetpass", ">two")
	if err := works(); err != nil {
		t.Errorf("a connection that was made with the old password: %v", err)
	}
	do("ACL", "DELUSER", "alice") // which breaks it
	eventually(t, func() error {
		if err := works(); !errors.Is(err, ErrAway) {
			return fmt.Errorf("got %w, want ErrAway", err)
		}
		return nil
	})
	says(t, works(), server.Addr(), "does not accept user and password", "redis://user:password@host")
	do("ACL", "SETUSER", "alice", "on", ">one", "~*", "&*", "+@all")
	if took := eventually(t, works); took > lastingDelay+soon {
		t.Errorf("works %v after the password was right again, want %v", took, lastingDelay)
	}
}

// A server that is one of several behind an address is told which is meant, also if its certificate is not checked.
func TestTLSTellsTheServersName(t *testing.T) {
	for _, insecure := range []bool{false, true} {
		ours, theirs := net.Pipe()
		asked := make(chan string, 1)
		go func() {
			_ = tls.Server(theirs, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				asked <- hello.ServerName
				return nil, errors.New("enough")
			}}).Handshake()
			_ = theirs.Close()
		}()
		config := &tls.Config{InsecureSkipVerify: insecure, MinVersion: tls.VersionTLS12}
		if _, err := handshake(within(t, unhurried), ours, "cache.example.com:6379", config); err == nil {
			t.Error("that was a handshake")
		}
		if got := <-asked; got != "cache.example.com" {
			t.Errorf("insecure %t: asked for %q, want cache.example.com", insecure, got)
		}
	}
}

func TestSocketThatIsForbiddenIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	// What the system says to those who are not root, as package net puts it.
	forbidden := &net.OpError{
		Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: os.NewSyscallError("connect", syscall.EACCES),
	}
	err := explainDial(forbidden, path, false)
	says(t, err, path, "may not be reached by this user", "permission denied", "unixsocketperm")
	if !errors.Is(err, ErrAway) || lasting(err) {
		t.Errorf("got %v, want ErrAway that passes when its permissions are changed", err)
	}
	if os.Geteuid() == 0 {
		return // and may do anything
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	says(t, whyNotOpen(t, "unix://"+path, Options{}), explainDial(forbidden, path, false).Error())
}
