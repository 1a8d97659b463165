package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

// recordedChanges are the calls of a rules service that change something.
type recordedChanges struct {
	mu   sync.Mutex
	list []string // methods and paths
}

// take returns the changes since the last call of take.
func (r *recordedChanges) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

func (r *recordedChanges) record(request *http.Request) {
	dryRun := request.URL.Query().Get("dry_run") == "true"
	if !dryRun && isChange(request.Method, request.URL.EscapedPath()) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, request.Method+" "+request.URL.Path)
	}
}

var pathValue = regexp.MustCompile(`\\{\w+\\}`)

// isChange reports whether a call changes something: viewers, who may only read, may not make it.
func isChange(method, path string) bool {
	return slices.ContainsFunc(api.Routes(), func(r api.Route) bool {
		pattern := "^" + pathValue.ReplaceAllString(regexp.QuoteMeta(r.Path), "[^/]+") + "$"
		return r.Method == method && method != http.MethodGet && !slices.Contains(r.Roles, token.Viewer) &&
			regexp.MustCompile(pattern).MatchString(path)
	})
}

// recordChanges makes the context "here" lead to the rules service through a proxy that records changes.
func (s *shell) recordChanges() *recordedChanges {
	s.t.Helper()
	p := cli.Program{Environ: s.env}
	file, err := p.ReadContexts()
	if err != nil {
		s.t.Fatal(err)
	}
	here := file.Contexts["here"]
	to, err := url.Parse(here.Server)
	if err != nil {
		s.t.Fatal(err)
	}
	recorded := &recordedChanges{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded.record(r)
		proxy.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	s.want("", "context", "set", "here", "--server", server.URL, "--token-file", here.TokenFile)
	return recorded
}

func TestOnlyCallsThatViewersMayNotMakeAreChanges(t *testing.T) {
	for call, want := range map[[2]string]bool{
		{"GET", "/v1/rules/search"}:                               false,
		{"PUT", "/v1/rules/search"}:                               true,
		{"POST", "/v1/validate"}:                                  false,
		{"POST", "/v1/rules:apply"}:                               true,
		{"POST", "/v1/webhooks/deploys/deliveries/42:retry"}:      true,
		{"DELETE", "/v1/tokens/alice"}:                            true,
		{"POST", "/v1/whatif"}:                                    false,
		{"POST", "/v1/none"}:                                      false,
		{"POST", "/v1/webhooks/deploys/deliveries/42:retry/more"}: false,
	} {
		if got := isChange(call[0], call[1]); got != want {
			t.Errorf("%s %s: got %v, want %v", call[0], call[1], got, want)
		}
	}
}
