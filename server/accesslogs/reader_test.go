package accesslogs_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/accesslogs"
)

var at = time.Date(2026, 10, 10, 13, 55, 36, 0, time.UTC)

func readAll(t *testing.T, text string, o accesslogs.Options) ([]accesslogs.Request, accesslogs.Stats) {
	t.Helper()
	r, err := accesslogs.NewReader(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	var list []accesslogs.Request
	for {
		var request accesslogs.Request
		err := r.Read(&request)
		if errors.Is(err, io.EOF) {
			return list, r.Stats()
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, request)
	}
}

func TestEveryFormatIsDetectedAndRead(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		format     accesslogs.Format
		time       time.Time
		status     int
		want       map[string]string
	}{
		{
			"common", `192.0.2.1 - alice [10/Oct/2026:13:55:36 +0000] "GET /search?q=a+b HTTP/1.1" 200 2326`,
			accesslogs.Common, at, 200,
			map[string]string{"ip": "192.0.2.1", "user": "alice", "method": "GET", "path": "/search", "query.q": "a b"},
		},
		{
			"combined", `2001:db8::1 - - [10/Oct/2026:15:55:36 +0200] "POST /a HTTP/2.0" 429 - "-" "a \"b\" \x41" "10.0.0.1"`,
			accesslogs.Combined, at, 429,
			map[string]string{"ip": "2001:db8::1", "method": "POST", "path": "/a", "header.user-agent": `a "b" A`},
		},
		{
			"nginx in JSON", `{"time_iso8601":"2026-10-10T13:55:36+00:00","remote_addr":"192.0.2.1","request":"GET /a?b=c HTTP/1.1",
				"status":"200","other":{"a":1},"http_host":"example.com","header.X-Plan":"gold"}`,
			accesslogs.JSON, at, 200,
			map[string]string{
				"ip": "192.0.2.1", "method": "GET", "path": "/a", "query.b": "c", "host": "example.com", "header.x-plan": "gold",
			},
		},
		{
			"Caddy", `{"level":"info","ts":1791640536.25,"request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.1","method":"GET",
				"host":"example.com","uri":"/a","headers":{"X-Plan":["gold"],"Accept":["a","b"]}},"user_id":"bob","status":404}`,
			accesslogs.JSON, at.Add(250 * time.Millisecond), 404,
			map[string]string{
				"ip": "192.0.2.1", "method": "GET", "path": "/a", "host": "example.com", "header.x-plan": "gold", "user": "bob",
			},
		},
		{
			"Headgate's gateway", `{"time":"2026-10-10T13:55:36.5Z","level":"INFO","msg":"request","id":"x","client":"192.0.2.1",
				"method":"GET","host":"a.example","path":"/a","protocol":"HTTP/1.1","status":200,"bytes":5,"query":"b=c"}`,
			accesslogs.JSON, at.Add(500 * time.Millisecond), 200,
			map[string]string{
				"ip": "192.0.2.1", "method": "GET", "path": "/a", "host": "a.example", "query.b": "c",
			},
		},
		{
			"CSV", "time,user,path,cost\n1791640536000,\"a, b\",https://example.com/x,3",
			accesslogs.CSV, at, 0,
			map[string]string{"user": "a, b", "path": "/x", "host": "example.com"},
		},
		{
			"CSV with tabs", "Timestamp\tClient_IP\tapi_key\n2026-10-10 13:55:36\t192.0.2.1\tk-1",
			accesslogs.CSV, at, 0,
			map[string]string{"ip": "192.0.2.1", "api_key": "k-1"},
		},
	} {
		text := strings.ReplaceAll(tt.text, "\n\t", "")
		list, stats := readAll(t, text+"\n", accesslogs.Options{})
		if stats.Format != tt.format || len(list) != 1 || stats.Skipped != 0 {
			t.Errorf("%s: got %d requests, %+v; want 1 in %s", tt.name, len(list), stats, tt.format)
			continue
		}
		if got := list[0]; !got.Time.Equal(tt.time) || got.Status != tt.status || !maps.Equal(got.Attributes, tt.want) {
			t.Errorf("%s: got %v, want %v %d %v", tt.name, got, tt.time, tt.status, tt.want)
		}
	}
}

func TestLinesThatCannotBeReadAreCounted(t *testing.T) {
	text := `192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"
nonsense

192.0.2.1 - - [10/Nob/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"
192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01" 400 1 "-" "-"
192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET /` + strings.Repeat("a", 500) + ` HTTP/1.1" 200 1 "-" "-"
192.0.2.2 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`
	list, stats := readAll(t, text, accesslogs.Options{MaxLine: 300})
	if len(list) != 2 || stats.Lines != 6 || stats.Requests != 2 || stats.Skipped != 4 || !stats.WholeSeconds {
		t.Fatalf("got %d requests, %+v", len(list), stats)
	}
	if e := stats.Examples; len(e) != 4 || e[0].Line != 2 || e[0].Text != "nonsense" || e[3].Reason != "too long" {
		t.Errorf("got %+v", e)
	}
}

func TestFormatIsThatOfTheFirstLineThatHasOne(t *testing.T) {
	t.Parallel()
	for format, line := range map[accesslogs.Format]string{
		accesslogs.Common:   `192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1`,
		accesslogs.Combined: `192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`,
		accesslogs.JSON:     `{"time":"2026-10-10T13:55:36Z","ip":"192.0.2.1"}`,
		accesslogs.CSV:      "time,ip\n2026-10-10T13:55:36Z,192.0.2.1",
	} {
		garbage := "{ no object\n\n192.0.2.1 - - [10/Oct/2026:13:55:35 +0000] \"\\x16\\x03\" 400 1\n"
		list, stats := readAll(t, garbage+line+"\n\n\nmore garbage\n"+line[strings.LastIndexByte(line, '\n')+1:], accesslogs.Options{})
		if len(list) != 2 || stats.Format != format || stats.Skipped != 3 {
			t.Errorf("%s: got %d requests, %+v, want 2, and 3 lines that cannot be read", format, len(list), stats)
			continue
		}
		want := []int64{1, 3, 7 + int64(strings.Count(line, "\n"))}
		for i, e := range stats.Examples {
			if e.Line != want[i] {
				t.Errorf("%s: got line %d, %q, want line %d", format, e.Line, e.Text, want[i])
			}
		}
	}
}

func TestCSVLinesNeedTheColumnsOfTheHeader(t *testing.T) {
	list, stats := readAll(t, "time,ip\n1791640536.5,192.0.2.1,more\n,192.0.2.1\n1791640536.5,\n1791640536.5,192.0.2.1\n",
		accesslogs.Options{})
	if len(list) != 1 || stats.Lines != 4 || stats.Skipped != 3 || stats.WholeSeconds {
		t.Errorf("got %v, %+v", list, stats)
	}
}

func TestCompressedFilesAreReadWithProgress(t *testing.T) {
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	for i := range 100 {
		_, _ = fmt.Fprintf(zipped, "{\"time\":%d,\"user\":\"u%d\"}\n", 1791640536+i, i)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "access.log.gz")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := accesslogs.Open(name, nil, accesslogs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	var request accesslogs.Request
	for err = r.Read(&request); err == nil; err = r.Read(&request) {
	}
	if done, size := r.Progress(); !errors.Is(err, io.EOF) || r.Stats().Requests != 100 || done != size || size != int64(b.Len()) {
		t.Errorf("got %v, %+v, %d of %d bytes", err, r.Stats(), done, size)
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	if _, err := accesslogs.NewReader(strings.NewReader(""), accesslogs.Options{Format: "xml"}); err == nil {
		t.Error("got no error")
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`192.0.2.1 - alice [10/Oct/2026:13:55:36 +0000] "GET /search?q=a+b HTTP/1.1" 200 2326`))
	f.Add([]byte(`{"ts":1,"request":{"uri":"http:/","headers":null}}`))
	f.Add([]byte("time;ip\n1;2"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := accesslogs.NewReader(bytes.NewReader(data), accesslogs.Options{MaxLine: 1000})
		if err != nil {
			return
		}
		var request accesslogs.Request
		for r.Read(&request) == nil {
			if request.Time.IsZero() || len(request.Attributes) == 0 {
				t.Fatalf("got %v", request)
			}
		}
	})
}
