package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

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
			o := Options{StartUnreachable: start, DialTimeout: unhurried}
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

func TestServerWithoutScriptsIsRefused(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{NoScripts: true})
	notOpen(t, server.URL(), Options{StartUnreachable: true, DialTimeout: unhurried}, server.Addr(), "does not let its user run scripts", "ACL SETUSER", "+@scripting")
	for taken, words := range map[string]string{
		"-eval": "does not let its user run scripts", "-evalsha": "does not let its user run scripts", "-time": "does not let its user do that",
	} {
		user := redistest.Standalone(t, redistest.Options{Users: []string{"bob on >secret ~* &* +@all " + taken}})
		notOpen(t, "redis://bob:secret@"+user.Addr(), Options{DialTimeout: unhurried}, user.Addr(), words, "ACL SETUSER", "+@scripting", "+time")
	}
	renamed := redistest.Standalone(t, redistest.Options{Config: []string{`rename-command EVAL ""`}})
	notOpen(t, renamed.URL(), Options{StartUnreachable: true, DialTimeout: unhurried}, renamed.Addr(), "has no Lua", "load its Lua module")
}

func TestReplicaIsRefused(t *testing.T) {
	primary := redistest.Standalone(t, redistest.Options{})
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Standalone(t, redistest.Options{Config: []string{"replicaof " + host + " " + port}})
	await.NoError(t, "not so yet", func() error {
		if replica.Info("replication")["master_link_status"] != "up" {
			return errors.New("no link yet")
		}
		return nil
	})
	notOpen(t, replica.URL(), Options{StartUnreachable: true, DialTimeout: unhurried}, replica.Addr(), "is a replica of "+primary.Addr(), "use the primary's address")
}

func testKindOfURLAndServersMustAgree(t *testing.T, cluster *redistest.ClusterSet) {
	server := redistest.Standalone(t, redistest.Options{})
	o := Options{StartUnreachable: true, DialTimeout: unhurried}
	notOpen(t, "redis-cluster://"+server.Addr(), o, server.Addr(), "is not part of a cluster", "use redis://")
	notOpen(t, "redis-sentinel://"+server.Addr()+"/mymaster", o, server.Addr(), "is not a sentinel", "26379")
	notOpen(t, "redis://"+cluster.Servers()[0].Addr(), o, cluster.Servers()[0].Addr(), "is part of a cluster", "use redis-cluster://")
}

func TestUnknownNameOfThePrimaryIsRefused(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, redistest.SentinelOptions{})
	u := strings.Replace(set.URL(), "/"+redistest.PrimaryName, "/nobody", 1)
	notOpen(t, u, Options{StartUnreachable: true, DialTimeout: unhurried}, `knows no primary called "nobody"`, "SENTINEL MASTERS")
	sentinel := set.Sentinels()[0].Addr()
	notOpen(t, "redis://"+sentinel, Options{StartUnreachable: true, DialTimeout: unhurried}, sentinel, "is a sentinel", "use redis-sentinel://")
}

func TestSentinelsMayHaveTheirOwnPassword(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, redistest.SentinelOptions{Server: redistest.Options{Password: "theirs"}})
	for _, s := range set.Sentinels() {
		if _, err := s.Do("ACL", "SETUSER", "default", "resetpass", ">ours"); err != nil {
			t.Fatal(err)
		}
	}
	notOpen(t, set.URL(), Options{StartUnreachable: true, DialTimeout: unhurried}, "127.0.0.1:", "wants a password", "sentinel_password")
	notOpen(t, set.URL()+"?sentinel_password=theirs", Options{StartUnreachable: true, DialTimeout: unhurried}, "does not accept user and password", "sentinel_password")
	s := open(t, set.URL()+"?sentinel_password=ours", Options{Secret: testSecret, DialTimeout: unhurried})
	if err := take(within(t, unhurried), s, "alice"); err != nil {
		t.Error(err)
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	before := runtime.NumGoroutine()
	for _, u := range []string{server.URL(), cluster.URL(), sentinels.URL(), "redis://" + freeAddr(t), "redis-cluster://" + freeAddr(t), "redis-sentinel://" + freeAddr(t) + "/m"} {
		s, err := Open(within(t, 3*unhurried), u, Options{StartUnreachable: true, Secret: testSecret})
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
	await.NoError(t, "not so yet", func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("%d goroutines; there were %d", n, before)
		}
		return nil
	})
}

func TestCloseDoesNotWaitForHungServers(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	sentinels := redistest.Sentinel(t, redistest.SentinelOptions{})
	all := slices.Concat([]*redistest.Server{server}, cluster.Servers(), sentinels.Servers(), sentinels.Sentinels())
	for _, u := range []string{server.URL(), cluster.URL(), sentinels.URL()} {
		s, err := Open(within(t, 3*unhurried), u, Options{Secret: testSecret, DialTimeout: unhurried, Logger: (&logbook.Book{}).Logger()})
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

// A changed password or revoked permission is reported at once, with a fix. When it is
// restored, the store recovers by itself.
func TestPasswordsAndRightsMayChange(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{Users: []string{"alice on >one ~* &* +@all"}})
	s := open(t, "redis://alice:one@"+server.Addr(), Options{Secret: testSecret, Logger: (&logbook.Book{}).Logger()})
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
	await.NoError(t, "not so yet", func() error {
		if err := works(); !errors.Is(err, ErrUnreachable) || !topology.IsPermanent(err) { // first it is known only that the connection broke
			return fmt.Errorf("got %w, want ErrUnreachable, and why", err)
		}
		return nil
	})
	says(t, works(), server.Addr(), "does not accept user and password", "redis://user:password@host")
	do("ACL", "SETUSER", "alice", "on", ">one", "~*", "&*", "+@all")
	const retryDelay = 5 * time.Second // after an error that is permanent
	if took := await.NoError(t, "not so yet", works); took > retryDelay+soon {
		t.Errorf("works %v after the password was right again, want %v", took, retryDelay)
	}
}
