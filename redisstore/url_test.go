package redisstore

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestURLsAreRead(t *testing.T) {
	for url, want := range map[string]endpoint{
		"redis://localhost":                {addrs: []string{"localhost:6379"}},
		"redis://10.0.0.1:7000/3":          {addrs: []string{"10.0.0.1:7000"}, db: 3},
		"redis://[::1]":                    {addrs: []string{"[::1]:6379"}},
		"redis://[fe80::1]:7000":           {addrs: []string{"[fe80::1]:7000"}},
		"REDIS://h?db=2":                   {addrs: []string{"h:6379"}, db: 2},
		"redis://:secret@h":                {addrs: []string{"h:6379"}, login: login{"", "secret"}},
		"redis://alice:p%40ss%2Fw%3Ao@h/1": {addrs: []string{"h:6379"}, db: 1, login: login{"alice", "p@ss/w:o"}},
		"redis://alice:p@ss:word@h":        {addrs: []string{"h:6379"}, login: login{"alice", "p@ss:word"}},
		"redis://h?protocol=2&dial_timeout=300ms&hang_timeout=2s": {
			addrs: []string{"h:6379"}, resp2: true, dialTimeout: 300 * time.Millisecond, hangTimeout: 2 * time.Second,
		},
		"unix:///run/redis.sock":                     {network: "unix", addrs: []string{"/run/redis.sock"}},
		"redis+unix://:pw@/run/my%20redis.sock?db=4": {network: "unix", addrs: []string{"/run/my redis.sock"}, db: 4, login: login{"", "pw"}},
		"redis-sentinel://a,b:7000,c/mymaster":       {kind: sentinel, addrs: []string{"a:26379", "b:7000", "c:26379"}, master: "mymaster"},
		"redis-sentinel://u:p@a/my%2Fmaster/5?sentinel_user=s&sentinel_password=q": {
			kind: sentinel, addrs: []string{"a:26379"}, master: "my/master", db: 5, login: login{"u", "p"}, sentinel: login{"s", "q"},
		},
		"redis-cluster://a:1,b:2,[::1]:3": {kind: cluster, addrs: []string{"a:1", "b:2", "[::1]:3"}},
		"redis-cluster://:pw@a?db=0":      {kind: cluster, addrs: []string{"a:6379"}, login: login{"", "pw"}},
		"rediss://h":                      {addrs: []string{"h:6379"}, tls: &tls.Config{}},
		"rediss-cluster://h":              {kind: cluster, addrs: []string{"h:6379"}, tls: &tls.Config{}},
		"rediss-sentinel://h/m":           {kind: sentinel, addrs: []string{"h:26379"}, master: "m", tls: &tls.Config{}},
		"redis-cluster://h?tls=true&tls_server_name=redis.example.com": {
			kind: cluster, addrs: []string{"h:6379"}, tls: &tls.Config{ServerName: "redis.example.com"},
		},
		"rediss://h?tls_insecure=true": {addrs: []string{"h:6379"}, tls: &tls.Config{InsecureSkipVerify: true}},
	} {
		got, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if want.network == "" {
			want.network = "tcp"
		}
		if (got.tls == nil) != (want.tls == nil) {
			t.Errorf("%s: TLS: got %t", url, got.tls != nil)
		} else if got.tls != nil && (got.tls.ServerName != want.tls.ServerName || got.tls.InsecureSkipVerify != want.tls.InsecureSkipVerify) {
			t.Errorf("%s: server name %q, insecure %t; want %q, %t", url,
				got.tls.ServerName, got.tls.InsecureSkipVerify, want.tls.ServerName, want.tls.InsecureSkipVerify)
		}
		if !slices.Equal(got.addrs, want.addrs) || got.kind != want.kind || got.network != want.network || got.master != want.master ||
			got.db != want.db || got.login != want.login || got.sentinel != want.sentinel || got.resp2 != want.resp2 ||
			got.dialTimeout != want.dialTimeout || got.hangTimeout != want.hangTimeout {
			t.Errorf("%s:\n got %+v\nwant %+v", url, *got, want)
		}
	}
}

func TestBadURLsAreRefusedInWordsThatSayWhatWouldBeRight(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"", "no scheme: want redis://"},
		{"localhost:6379", "no scheme: want redis://"},
		{"http://localhost", `unknown scheme "http": want redis://`},
		{"redis://", "no name of a host: want host:port"},
		{"redis://:6379", "no name of a host"},
		{"redis://a,b", "several servers: want redis-cluster://"},
		{"redis://a,", "no name of a host"},
		{"redis-cluster://a,a:6379", "a:6379 stands in it twice"},
		{"redis://a:0", "a port that is no number from 1 to 65535"},
		{"redis://a:65536", "a port that is no number"},
		{"redis://::1", "want brackets around an IPv6 address"},
		{"redis://[::1", "between brackets"},
		{"redis://[localhost]:1", "no IPv6 address"},
		{"redis://a/one", `database "one": want a number`},
		{"redis://a/-1", `database "-1"`},
		{"redis://a/1/2", `path "/1/2"`},
		{"redis-cluster://a/1", "a cluster has only database 0"},
		{"redis-cluster://a?db=1", "a cluster has only database 0"},
		{"redis-sentinel://a", "no name of the primary"},
		{"redis-sentinel://a/", "no name of the primary"},
		{"redis-sentinel://a/m/1/2", "path"},
		{"unix://run/redis.sock", `host "run" in the URL of a socket: want three slashes`},
		{"unix:///", "no path of a socket"},
		{"redis://alice@a", "a user without a password: want user:password@"},
		{"redis://:@a", "a user without a password"},
		{"redis://a?dbb=1", `unknown parameter "dbb": want one of db,`},
		{"redis://a?db=1&db=2", "parameter db stands in it 2 times"},
		{"redis://a?protocol=4", `protocol "4": want 2 or 3`},
		{"redis://a?dial_timeout=5", `dial_timeout "5": want a duration such as 500ms`},
		{"redis://a?hang_timeout=-1s", `hang_timeout "-1s"`},
		{"redis://a?hang_timeout=1ms", `hang_timeout "1ms": want a duration such as 500ms, at least 10ms`},
		{"redis://a?dial_timeout=1ns", `dial_timeout "1ns"`},
		{"redis://a/1?db=2", "a database in the path and as db: want it once"},
		{"rediss://a?tls=false", "rediss and tls=false: want redis:// for no TLS"},
		{"redis://a?tls=perhaps", `tls "perhaps": want true or false`},
		{"redis://a?tls_server_name=b", "tls_server_name without TLS: want rediss://"},
		{"rediss://a?tls_ca_file=/does/not/exist", "read tls_ca_file"},
		{"rediss://a?tls_ca_file=url_test.go", "has no certificate in it: want PEM"},
		{"rediss://a?tls_cert_file=x", "only one of tls_cert_file and tls_key_file"},
		{"redis://a?sentinel_password=x", "without sentinels"},
		{"redis-sentinel://a/m?sentinel_user=x", "sentinel_user without sentinel_password"},
		{"redis://a?db=%zz", "cannot be read"},
	} {
		_, err := parseURL(tt.url)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q:\n got %v\nwant %s", tt.url, err, tt.want)
		}
	}
}

func TestErrorsOfURLsHaveNoPasswords(t *testing.T) {
	for _, url := range []string{
		"redis://user:hunter2",         // no host
		"redis://user:hunter2:6379",    // no @
		"redis://:hunter2/x@host",      // an / in the password
		"redis://:hunter2?x@host",      // a ?
		"redis://:hunter2#x@host",      // a #
		"redis://:hunter2%zz@host",     // a bad escape
		"redis://hunter2@host",         // no colon
		"redis://:hunter2@host:port",   // a bad port
		"redis://:hunter2@host,host",   // several
		"redis://:hunter2@host/db",     // a bad database
		"http://:hunter2@host",         // a bad scheme
		"redis://:hunter2@[host",       // a bad host
		"redis://:hunter2@host?nope=1", // a bad parameter
		"redis-sentinel://h?sentinel_password=hunter2",
		"redis-cluster://h?sentinel_password=hunter2",
		"unix://:hunter2@host/run/redis.sock",
		"redis://host?tls=maybe&sentinel_password=hunter2",
	} {
		_, err := parseURL(url)
		if err == nil {
			t.Errorf("%s is accepted", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

func TestURLAndOptionsAreJoined(t *testing.T) {
	o := Options{TLSConfig: &tls.Config{ServerName: "options"}, DialTimeout: time.Second, HangTimeout: 2 * time.Second}
	e, err := parseURL("rediss://h?tls_server_name=url&hang_timeout=3s")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.withOptions(&o); err != nil {
		t.Fatal(err)
	}
	if e.tls.ServerName != "url" || e.dialTimeout != time.Second || e.hangTimeout != 3*time.Second {
		t.Errorf("got server name %q, timeouts %v and %v; want url, 1s, 3s", e.tls.ServerName, e.dialTimeout, e.hangTimeout)
	}
	if o.TLSConfig.ServerName != "options" {
		t.Error("the caller's TLS configuration was changed")
	}
	plain, err := parseURL("redis://h")
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.withOptions(&o); err == nil || !strings.Contains(err.Error(), "want rediss://") {
		t.Errorf("TLSConfig with a URL without TLS: got %v", err)
	}
}

func FuzzParseURL(f *testing.F) {
	for _, url := range []string{
		"redis://u:p@h:1/2?db=3", "redis-sentinel://a,b/m/1", "redis-cluster://[::1]:1,b", "unix:///a%20b", "rediss://h?tls_insecure=1",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if strings.Contains(url, "_file") {
			return // which reads files
		}
		e, err := parseURL(url)
		if err != nil {
			return
		}
		if len(e.addrs) == 0 || slices.Contains(e.addrs, "") || e.kind != sentinel && e.master != "" || e.kind == cluster && e.db != 0 {
			t.Errorf("%q: got %+v", url, *e)
		}
	})
}
