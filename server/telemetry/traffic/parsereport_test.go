package traffic_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/telemetry/traffic"
)

func fullReport() *traffic.Report {
	all := traffic.Counts{
		Requests: 9, Denied: 8, Delayed: 7, ShadowDenied: 6, Degraded: 5, Cost: 4, Timed: 3, TookNS: 999_999_999_999_999_999,
	}
	return &traffic.Report{
		Node: "a", Started: 5,
		Seconds: []traffic.Second{
			{Unix: 1, Rows: []traffic.Row{{Rule: traffic.Total, Counts: all}, {Rule: "search", Counts: traffic.Counts{Denied: 1}}}},
			{Unix: 2, Rows: []traffic.Row{{Rule: "search", Counts: all}, {}}},
			{Unix: 3},
		},
		Minute: 60,
		Clients: []traffic.ClientCount{
			{Client: `{"ip":"::1","user":"a"}`, Rule: "search", Requests: 4, Allowed: 3, Denied: 1, Error: 2},
			{Client: `{"api_key":"abcd…#0123456789abcdef"}`, Rule: "größe", Shadow: true},
			{Client: `{}`},
		},
		Cursor: "3f2a:7",
	}
}

// What nodes write is read without encoding/json, whose work is ten times as much.
func TestReportOfANodeIsParsedWithFewAllocations(t *testing.T) {
	r := fullReport()
	for range 1000 {
		r.Clients = append(r.Clients, r.Clients[0])
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := traffic.ParseReport(data)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("got %.2000s, %v, want %.2000s", fmt.Sprint(got), err, fmt.Sprint(r))
	}
	n := testing.AllocsPerRun(10, func() { _, _ = traffic.ParseReport(data) })
	if n > 1100 {
		t.Errorf("got %v allocations for %d clients, want about one for each", n, len(r.Clients))
	}
}

func TestReportsInOtherFormsAreParsed(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{` { "node" : "a" } `, `{"node":"a","started":0,"seconds":null}`},
		{`{"started":3,"node":"a"}`, `{"node":"a","started":3,"seconds":null}`},
		{`{"node":"a","other":[1,{}]}`, `{"node":"a","started":0,"seconds":null}`},
		{`{"node":"\u0061","seconds":[]}`, `{"node":"a","started":0,"seconds":[]}`},
		{`{"node":"a","seconds":[{"unix":-1,"rows":[]}]}`, `{"node":"a","started":0,"seconds":[{"unix":-1,"rows":[]}]}`},
		{`{"node":"a","seconds":[],"clients":[{"client":{"b":"","a":""}}]}`, `{"node":"a","started":0,"seconds":[],"clients":[{"client":{"a":"","b":""},"rule":"","requests":0,"allowed":0,"denied":0,"error":0}]}`},
		{`{"node":"a","seconds":[],"clients":[{"client":{"a":"\u003c"},"rule":"r"}]}`, `{"node":"a","started":0,"seconds":[],"clients":[{"client":{"a":"\u003c"},"rule":"r","requests":0,"allowed":0,"denied":0,"error":0}]}`},
	} {
		r, err := traffic.ParseReport([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: got error %v", tt.text, err)
			continue
		}
		if got, _ := json.Marshal(r); string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.text, got, tt.want)
		}
	}
	for _, text := range []string{
		``, `{`, `{"node":"a"`, `{"node":"a"}}`, `{"node":3}`, `{"node":"a","seconds":[{"unix":01,"rows":[]}]}`,
		`{"node":"a","seconds":[{"unix":1.5,"rows":[]}]}`, `{"node":"a","clients":[{"client":{"a":1}}]}`,
		`{"node":"a","clients":[{"client":{` + strings.Repeat(`"a":"",`, 3000) + `"b":""}}]}`,
	} {
		if r, err := traffic.ParseReport([]byte(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", text, r)
		}
	}
}

// FuzzParseReport checks that ParseReport reads what encoding/json does.
func FuzzParseReport(f *testing.F) {
	data, err := json.Marshal(fullReport())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for i := range data {
		f.Add(append(append(data[:i:i], '0'), data[i:]...))
		f.Add(append(data[:i:i], data[i+1:]...))
	}
	f.Add(fmt.Appendf(nil, `{"node":"%s","seconds":[],"clients":[{"client":{"a":"%s"}}]}`, "\u2028", "\u2029"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := traffic.ParseReport(data)
		var want traffic.Report
		wantErr := json.Unmarshal(data, &want)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: got error %v, want %v", data, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, &want) {
			t.Fatalf("%s: got %+v, want %+v", data, got, &want)
		}
	})
}
