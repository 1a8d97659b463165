package redisstore

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

func TestURLAndOptionsAreJoined(t *testing.T) {
	o := Options{TLSConfig: &tls.Config{ServerName: "options"}, DialTimeout: time.Second, HangTimeout: 2 * time.Second}
	e, err := o.endpoint("rediss://h?tls_server_name=url&hang_timeout=3s")
	if err != nil {
		t.Fatal(err)
	}
	if e.TLS.ServerName != "url" || e.DialTimeout != time.Second || e.HangTimeout != 3*time.Second {
		t.Errorf("got server name %q, timeouts %v and %v; want url, 1s, 3s", e.TLS.ServerName, e.DialTimeout, e.HangTimeout)
	}
	if o.TLSConfig.ServerName != "options" {
		t.Error("the caller's TLS configuration was changed")
	}
	if _, err := o.endpoint("redis://h"); err == nil || !strings.Contains(err.Error(), "use rediss://") {
		t.Errorf("TLSConfig with a URL without TLS: got %v", err)
	}
}
