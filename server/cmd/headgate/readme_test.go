package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

// A readmeBlock is a fenced block of the README.
type readmeBlock struct{ language, text string }

func readmeBlocks(t *testing.T) []readmeBlock {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var list []readmeBlock
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		list = append(list, readmeBlock{m[1], m[2]})
	}
	return list
}

// A reader types the commands of the README in a shell that keeps its folder, and its database from one start to the
// next. The addresses of the README stand for those of the running process, since tests use free ports.
type reader struct {
	t       *testing.T
	dir     string
	running *process
	service string // the address of the user's own service
}

// types runs a command line and returns what it prints.
func (r *reader) types(line string) string {
	r.t.Helper()
	replace := strings.NewReplacer(
		"127.0.0.1:8080", r.running.gateway, "127.0.0.1:8081", r.running.api, "127.0.0.1:8084", r.running.admin,
		"-p 8083", "-p "+r.running.resp[strings.LastIndex(r.running.resp, ":")+1:],
	)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", replace.Replace(line))
	cmd.Dir = r.dir
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "HEADGATE_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "HEADGATE_CONTEXTS="+filepath.Join(r.dir, "contexts.yaml"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// starts runs a line that starts a server.
func (r *reader) starts(line string) {
	r.t.Helper()
	if r.running != nil {
		r.running.stop()
	}
	args := onFreePort("--data-dir", filepath.Join(r.dir, "data"))
	for _, word := range strings.Fields(strings.ReplaceAll(line, "http://localhost:9000", r.service))[2:] {
		if word == "rules.yaml" {
			word = filepath.Join(r.dir, word)
		}
		args = append(args, word)
	}
	r.running = serve(r.t, args...)
}

// saveToken puts the admin token that the first start prints into token.txt.
func (r *reader) saveToken() {
	r.t.Helper()
	printed := regexp.MustCompile(`(?m)^  (hg_\S+)$`)
	await.True(r.t, "the first start prints an admin token", func() bool { return printed.MatchString(r.running.stdout.String()) })
	writeFile(r.t, filepath.Join(r.dir, "token.txt"), printed.FindStringSubmatch(r.running.stdout.String())[1])
}

// protectsService checks that the running gateway limits requests to the user's service.
func (r *reader) protectsService() {
	r.t.Helper()
	c := newClient(r.t, r.running.gateway, "X-API-Key", "alice")
	await.True(r.t, "the user's service responds through the gateway", func() bool {
		response := c.must("/")
		return response.StatusCode == http.StatusOK && response.Header.Get("X-RateLimit-Limit") == "20"
	})
}

// Each command of the README, typed in order, does what the README says.
func TestReadmeCommandsWorkInOrder(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mine") }))
	t.Cleanup(service.Close)
	r := &reader{t: t, dir: t.TempDir(), service: service.URL}
	want := map[string]func(out string) bool{ // what the README says of a line
		"[1-15]": func(out string) bool {
			return strings.HasPrefix(out, strings.Repeat("200 ", 10)) && strings.Contains(out, "429")
		},
		"rules apply -f rules.yaml --dry-run": func(out string) bool { return strings.Contains(out, "would create 2") },
		"rules apply -f rules.yaml --note":    func(out string) bool { return strings.Contains(out, "created 2") },
		"headgate explain": func(out string) bool {
			return strings.Contains(out, "per-key") && strings.Contains(out, "Decision: allow")
		},
		"rules history": func(out string) bool {
			return strings.Contains(out, "first rules") && strings.Contains(out, "their launch")
		},
		"rules rollback 2":      func(out string) bool { return strings.Contains(out, "delete rule per-key") },
		"curl -d":               func(out string) bool { return strings.Contains(out, `"passed":true`) },
		"HG.TAKE per-key alice": func(out string) bool { return strings.HasPrefix(out, "1\n") },
		"CL.THROTTLE":           func(out string) bool { return strings.HasPrefix(out, "0\n16\n15\n") },
	}
	met := map[string]bool{}
	for _, b := range readmeBlocks(t) {
		switch b.language {
		case "yaml":
			writeFile(t, filepath.Join(r.dir, "rules.yaml"), b.text)
		case "sh":
			for line := range strings.Lines(b.text) {
				line = strings.TrimSpace(line)
				switch {
				case strings.HasPrefix(line, "make run"):
					first := r.running == nil
					r.starts("headgate serve")
					if first {
						r.saveToken()
					}
				case strings.HasPrefix(line, "make test"), strings.HasPrefix(line, "export PATH"): // this test is part of it
				case strings.HasPrefix(line, "headgate serve"):
					r.starts(line)
					r.protectsService()
				default:
					out := r.types(line)
					for words, description := range want {
						if strings.Contains(line, words) {
							met[words] = true
							if !description(out) {
								t.Errorf("%s: got\n%s", line, out)
							}
						}
					}
				}
			}
		}
	}
	for words := range want {
		if !met[words] {
			t.Errorf("the README has no command with %q", words)
		}
	}
}
