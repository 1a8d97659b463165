package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

const testAdminToken = "the-admin-token-of-the-tests"

// newFile writes a file of the test's own and returns its path.
func newFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rulesService returns a client of a process that is its admin.
func rulesService(t *testing.T, p *process) *remote.Client {
	t.Helper()
	return rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Token: testAdminToken, Timeout: patience})
}

func rulesServiceAt(t *testing.T, c remote.Config) *remote.Client {
	t.Helper()
	made, err := remote.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// nodeToken has the service make a token for nodes, and returns a file with it.
func nodeToken(t *testing.T, client *remote.Client) string {
	t.Helper()
	var made struct{ Secret string }
	token := map[string]any{"id": "nodes", "role": "node", "namespaces": []string{"*"}}
	if err := client.Do(t.Context(), http.MethodPost, "/v1/tokens", nil, token, &made); err != nil {
		t.Fatal(err)
	}
	return newFile(t, "node-token", made.Secret+"\n")
}

func putRule(t *testing.T, client *remote.Client, id, body string) int64 {
	t.Helper()
	revision, err := client.Put(t.Context(), remote.Rules, id, []byte(body), control.AnyRevision)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// limitOf asks the decision service of a process how much a user may have under the rule per-user, which takes nothing.
func limitOf(t *testing.T, p *process, user string) (int64, error) {
	t.Helper()
	body := fmt.Sprintf(`{"ruleId":"per-user","client":{"userId":%q},"cost":0}`, user)
	response, err := http.Post("http://"+p.api+"/v1/ratelimit", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var said struct{ Limit int64 }
	if response.StatusCode != http.StatusOK {
		return 0, errors.New(response.Status)
	}
	return said.Limit, json.NewDecoder(response.Body).Decode(&said)
}

// waitLimit waits for a limit to be in force.
func waitLimit(t *testing.T, p *process, user string, want int64) {
	t.Helper()
	await.NoError(t, fmt.Sprintf("a limit of %d for %s", want, user), func() error {
		got, err := limitOf(t, p, user)
		if err == nil && got != want {
			err = fmt.Errorf("got %d", got)
		}
		return err
	})
}

const perUserRule = `{"id":"per-user","key":["user"],"limits":["%d/h"]}`

// freeAddr returns an address that nobody listens on now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0") // all others listen on 127.0.0.1, so that nobody takes it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
