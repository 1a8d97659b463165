package site

import "testing"

func TestReportOfH2LoadIsRead(t *testing.T) {
	const text = `
requests: 1933 total, 1937 started, 1933 done, 1930 succeeded, 3 failed, 2 errored, 1 timeout
status codes: 1900 2xx, 10 3xx, 15 4xx, 5 5xx
`
	got, err := parseH2Load(text)
	if want := (WrkRun{Requests: 1930, Refused: 30, Read: 3, Write: 2, Timeout: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseH2Load("failed to resolve"); err == nil {
		t.Error("got no error for another text, want one")
	}
}
