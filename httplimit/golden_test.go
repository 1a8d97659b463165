package httplimit_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/rules"
)

var update = flag.Bool("update", false, "write the responses into testdata")

// The files in testdata are conversations with a server whose rules are in goldenRules. Each part begins with a line of
// dashes:
//
//	--- fields no-rate-limit      options of the middleware: also no-x-rate-limit, reset-delta
//	--- request                   as it is sent
//	--- answer                    the expected response, without Date
//	--- advance 1s                moves the clock, which stands at 2026-01-01 at first
//	--- store away                makes the store unreachable; "store back" makes it reachable
func TestResponsesMatchTestdata(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(goldenRules) {
		t.Fatalf("%d files in testdata for %d sets of rules, %v; want one for each", len(files), len(goldenRules), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			list, ok := goldenRules[name]
			if !ok {
				t.Fatalf("goldenRules has no %q", name)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := converse(t, list, string(data))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(data), "\n")
			for i := range max(len(gotLines), len(wantLines)) {
				if g, w := lineOf(gotLines, i), lineOf(wantLines, i); g != w {
					t.Fatalf("%s:%d:\n got %s\nwant %s\n(run with -update to accept)", path, i+1, g, w)
				}
			}
		})
	}
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}

// converse replays a conversation and returns it with the responses of the server.
func converse(t *testing.T, list []rules.Rule, script string) string {
	t.Helper()
	parts := strings.Split("\n"+script, "\n--- ")
	var out strings.Builder
	var c httplimit.Config
	var g *gate
	var address string
	for _, part := range parts[1:] {
		head, body, _ := strings.Cut(part, "\n")
		words := strings.Fields(head)
		if words[0] == "answer" {
			continue // written after the request
		}
		fmt.Fprintf(&out, "\n--- %s", part)
		if words[0] == "fields" {
			c.Fields = fieldsOf(t, words[1:])
			continue
		}
		if g == nil {
			g = newGate(t, list, c)
			address = strings.TrimPrefix(serve(t, g.limit(http.HandlerFunc(service))), "http://")
		}
		switch words[0] {
		case "request":
			fmt.Fprintf(&out, "\n--- answer\n%s", exchange(t, address, body))
		case "advance":
			d, err := time.ParseDuration(words[1])
			if err != nil {
				t.Fatal(err)
			}
			g.clock.Advance(d)
		case "store":
			g.store.Unreachable.Store(words[1] == "away")
		default:
			t.Fatalf("no such part: %q", head)
		}
	}
	return strings.TrimPrefix(out.String(), "\n")
}

func fieldsOf(t *testing.T, words []string) (f httplimit.Fields) {
	t.Helper()
	for _, word := range words {
		switch word {
		case "no-rate-limit":
			f.NoRateLimit = true
		case "no-x-rate-limit":
			f.NoXRateLimit = true
		case "reset-delta":
			f.ResetDelta = true
		default:
			t.Fatalf("no such fields: %q", word)
		}
	}
	return f
}

// service is the handler behind the middleware.
func service(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/limits-itself":
		w.Header().Set("RateLimit-Policy", `"inner";q=7`)
		w.Header().Set("RateLimit", `"inner";r=3`)
		w.Header().Set("X-RateLimit-Limit", "7")
		w.Header().Set("X-RateLimit-Remaining", "3")
	case "/tokens":
		w.Header().Set("X-Tokens-Used", r.URL.Query().Get("used"))
	case "/empty":
		return
	}
	_, _ = io.WriteString(w, "served\n")
}

// exchange sends a request and returns the response as received, without Date and with its header sorted.
func exchange(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(strings.TrimRight(request, "\n")+"\n\n", "\n", "\r\n")
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	var lines []string
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && lines == nil {
			return "(the connection is closed)\n"
		}
		if err != nil {
			t.Fatalf("read the response to %q: %v, after %q", request, err, lines)
		}
		line = strings.TrimSuffix(line, "\r\n")
		if line == "" {
			break
		}
		if !strings.HasPrefix(line, "Date: ") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines[1:])
	// Requests say Connection: close, so that the body ends with the connection.
	body, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n\n" + string(body)
}
