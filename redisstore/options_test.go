package redisstore

import (
	"strings"
	"testing"
	"time"
)

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Prefix: "a{b}"}, `Options.Prefix "a{b}" must consist of letters, digits`},
		{Options{Prefix: "a b"}, "Options.Prefix"},
		{Options{Prefix: strings.Repeat("x", 65)}, "at most 64"},
		{Options{Secret: []byte("short")}, "Options.Secret has 5 bytes: it needs at least 16"},
		{Options{DialTimeout: -1}, "Options.DialTimeout -1ns must be at least 10ms, or 0 for 1s"},
		{Options{HangTimeout: time.Millisecond}, "Options.HangTimeout 1ms must be at least 10ms"},
	} {
		if err := tt.o.validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v:\n got %v\nwant %s", tt.o, err, tt.want)
		}
	}
	good := Options{Prefix: "my-app.v2:limits/eu_1", Secret: make([]byte, 16)}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	var zero Options
	if err := zero.validate(); err != nil || zero.Prefix != DefaultPrefix || zero.DialTimeout != DefaultDialTimeout || zero.Logger == nil {
		t.Errorf("the zero Options: %+v, %v", zero, err)
	}
}
