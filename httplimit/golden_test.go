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
)

var update = flag.Bool("update", false, "write the answers that are given into testdata")

// The files in testdata are conversations, held with servers with and without Listener. Each begins with a rules file
// and has parts that begin with a line of dashes:
//
//	--- fields no-rate-limit      how clients are told: also no-x-rate-limit, reset-delta, none
//	--- request [to PATH of the handler below]
//	--- answer                    what is expected, as it is on the wire, without Date
//	--- advance 1s                of the clock, which shows 2026-01-01 otherwise
//	--- store away                or back
func TestAnswersAreAsInTestdata(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := converse(t, string(data))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			gots, wants := strings.Split(got, "\n"), strings.Split(string(data), "\n")
			for i := range max(len(gots), len(wants)) {
				if g, w := lineOf(gots, i), lineOf(wants, i); g != w {
					t.Fatalf("%s:%d:\n got %s\nwant %s\n(-update writes what is given)", name, i+1, g, w)
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

// converse replays a conversation and returns it with the answers that are given.
func converse(t *testing.T, script string) string {
	t.Helper()
	parts := strings.Split("\n"+script, "\n--- ")
	rules := strings.TrimPrefix(parts[0], "\n")
	var out strings.Builder
	out.WriteString(rules)
	var c httplimit.Config
	var g *gate
	var address string
	for _, part := range parts[1:] {
		head, body, _ := strings.Cut(part, "\n")
		words := strings.Fields(head)
		if words[0] == "answer" {
			continue // it is written after the request
		}
		fmt.Fprintf(&out, "\n--- %s", part)
		if words[0] == "fields" {
			c.Fields = fieldsOf(t, words[1:])
			continue
		}
		if g == nil {
			g = newGate(t, rules, c)
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
			g.store.Away.Store(words[1] == "away")
		default:
			t.Fatalf("no such part: %q", head)
		}
	}
	return out.String()
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

// service is what the gate stands before.
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

// exchange sends a request as it is written and returns the answer as it is on the wire, but for what changes each
// time.
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
			t.Fatalf("read the answer to %q: %v, after %q", request, err, lines)
		}
		line = strings.TrimSuffix(line, "\r\n")
		if line == "" {
			break
		}
		if !strings.HasPrefix(line, "Date: ") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines[1:]) // their order means nothing
	// Requests say Connection: close, so that the body ends with the connection.
	body, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n\n" + string(body)
}
