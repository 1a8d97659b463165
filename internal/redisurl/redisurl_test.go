package redisurl

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestURLsAreRead(t *testing.T) {
	for url, want := range map[string]Endpoint{
		"redis://localhost":                {Addrs: []string{"localhost:6379"}},
		"redis://10.0.0.1:7000/3":          {Addrs: []string{"10.0.0.1:7000"}, DB: 3},
		"redis://[::1]":                    {Addrs: []string{"[::1]:6379"}},
		"redis://[fe80::1]:7000":           {Addrs: []string{"[fe80::1]:7000"}},
		"REDIS://h?db=2":                   {Addrs: []string{"h:6379"}, DB: 2},
		"redis://:secret@h":                {Addrs: []string{"h:6379"}, Login: Login{"", "secret"}},
		"redis://alice:p%40ss%2Fw%3Ao@h/1": {Addrs: []string{"h:6379"}, DB: 1, Login: Login{"alice", "p@ss/w:o"}},
		"redis://alice:p@ss:word@h":        {Addrs: []string{"h:6379"}, Login: Login{"alice", "p@ss:word"}},
		"redis://h?protocol=2&dial_timeout=300ms&hang_timeout=2s": {
			Addrs: []string{"h:6379"}, RESP2: true, DialTimeout: 300 * time.Millisecond, HangTimeout: 2 * time.Second,
		},
		"unix:///run/redis.sock":                     {Network: "unix", Addrs: []string{"/run/redis.sock"}},
		"redis+unix://:pw@/run/my%20redis.sock?db=4": {Network: "unix", Addrs: []string{"/run/my redis.sock"}, DB: 4, Login: Login{"", "pw"}},
		"redis-sentinel://a,b:7000,c/mymaster":       {Kind: Sentinel, Addrs: []string{"a:26379", "b:7000", "c:26379"}, Master: "mymaster"},
		"redis-sentinel://u:p@a/my%2Fmaster/5?sentinel_user=s&sentinel_password=q": {
			Kind: Sentinel, Addrs: []string{"a:26379"}, Master: "my/master", DB: 5, Login: Login{"u", "p"}, Sentinel: Login{"s", "q"},
		},
		"redis-cluster://a:1,b:2,[::1]:3": {Kind: Cluster, Addrs: []string{"a:1", "b:2", "[::1]:3"}},
		"redis-cluster://:pw@a?db=0":      {Kind: Cluster, Addrs: []string{"a:6379"}, Login: Login{"", "pw"}},
		"rediss://h":                      {Addrs: []string{"h:6379"}, TLS: &tls.Config{}},
		"rediss-cluster://h":              {Kind: Cluster, Addrs: []string{"h:6379"}, TLS: &tls.Config{}},
		"rediss-sentinel://h/m":           {Kind: Sentinel, Addrs: []string{"h:26379"}, Master: "m", TLS: &tls.Config{}},
		"redis-cluster://h?tls=true&tls_server_name=redis.example.com": {
			Kind: Cluster, Addrs: []string{"h:6379"}, TLS: &tls.Config{ServerName: "redis.example.com"},
		},
		"rediss://h?tls_insecure=true": {Addrs: []string{"h:6379"}, TLS: &tls.Config{InsecureSkipVerify: true}},
	} {
		got, err := Parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if want.Network == "" {
			want.Network = "tcp"
		}
		if (got.TLS == nil) != (want.TLS == nil) {
			t.Errorf("%s: TLS: got %t", url, got.TLS != nil)
		} else if got.TLS != nil && (got.TLS.ServerName != want.TLS.ServerName || got.TLS.InsecureSkipVerify != want.TLS.InsecureSkipVerify) {
			t.Errorf("%s: server name %q, insecure %t; want %q, %t", url,
				got.TLS.ServerName, got.TLS.InsecureSkipVerify, want.TLS.ServerName, want.TLS.InsecureSkipVerify)
		}
		if !slices.Equal(got.Addrs, want.Addrs) || got.Kind != want.Kind || got.Network != want.Network || got.Master != want.Master ||
			got.DB != want.DB || got.Login != want.Login || got.Sentinel != want.Sentinel || got.RESP2 != want.RESP2 ||
			got.DialTimeout != want.DialTimeout || got.HangTimeout != want.HangTimeout {
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
		{"redis-cluster://a,a:6379", "a:6379 occurs twice"},
		{"redis://a:0", "the port is not a number from 1 to 65535"},
		{"redis://a:65536", "the port is not a number"},
		{"redis://::1", "want brackets around an IPv6 address"},
		{"redis://[::1", "in brackets"},
		{"redis://[localhost]:1", "not an IPv6 address"},
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
		{"redis://a?db=1&db=2", "parameter db occurs 2 times"},
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
		{"rediss://a?tls_ca_file=redisurl_test.go", "has no certificate in it: want PEM"},
		{"rediss://a?tls_cert_file=x", "only one of tls_cert_file and tls_key_file"},
		{"redis://a?sentinel_password=x", "without sentinels"},
		{"redis-sentinel://a/m?sentinel_user=x", "sentinel_user without sentinel_password"},
		{"redis://a?db=%zz", "cannot be parsed"},
	} {
		_, err := Parse(tt.url)
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
		_, err := Parse(url)
		if err == nil {
			t.Errorf("%s is accepted", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, url := range []string{
		"redis://u:p@h:1/2?db=3", "redis-sentinel://a,b/m/1", "redis-cluster://[::1]:1,b", "unix:///a%20b", "rediss://h?tls_insecure=1",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if strings.Contains(url, "_file") {
			return // which reads files
		}
		e, err := Parse(url)
		if err != nil {
			return
		}
		if len(e.Addrs) == 0 || slices.Contains(e.Addrs, "") || e.Kind != Sentinel && e.Master != "" || e.Kind == Cluster && e.DB != 0 {
			t.Errorf("%q: got %+v", url, *e)
		}
	})
}
