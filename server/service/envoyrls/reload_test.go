package envoyrls_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/server/service/envoyrls"
)

func TestSwappedConfigMapComesIntoForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	revision := func(name string, perHour int) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "limits.yaml", limits("api", perHour))
		return name
	}
	point := func(to string) { // like Kubernetes: a new link is renamed over the old one
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(to, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	point(revision("..1", 1))
	if err := os.Symlink(filepath.Join("..data", "limits.yaml"), filepath.Join(dir, "limits.yaml")); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, envoyrls.Config{Path: dir})
	watching(t, s)
	client := dial(t, s)
	if got := limitOf(t, client, "api"); got != 1 {
		t.Fatalf("got %d an hour, want 1", got)
	}
	for i, name := range []string{"..2", "..3", "..4"} {
		point(revision(name, i+2))
		await.True(t, "the next revision", func() bool { return limitOf(t, client, "api") == uint32(i+2) })
	}
}

// The path itself may be a link, as of a release that is swapped as a whole.
func TestLinkedDirectoryIsFollowed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, "current")
	point := func(name, text string) {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, name), "limits.yaml", text)
		if err := os.Symlink(name, path+".next"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".next", path); err != nil {
			t.Fatal(err)
		}
	}
	point("1", limits("api", 1))
	s := newServer(t, envoyrls.Config{Path: path})
	watching(t, s)
	client := dial(t, s)
	point("2", limits("api", 2))
	await.True(t, "the next release", func() bool { return limitOf(t, client, "api") == 2 })
	point("3", "domain: api\nwrong: 3\n")
	await.True(t, "the wrong one is counted", func() bool { return s.Stats().LoadsRefused > 0 })
	if got := limitOf(t, client, "api"); got != 2 || !s.Healthy() {
		t.Errorf("after the wrong one: got %d an hour and healthy %v, want the 2 before and true", got, s.Healthy())
	}
	point("4", limits("api", 4))
	await.True(t, "the one after it", func() bool { return limitOf(t, client, "api") == 4 })
}

// watching has the server watch its configuration for the length of a test.
func watching(t testing.TB, s *envoyrls.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAddedChangedAndRemovedFilesApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("a", 1))
	s := newServer(t, envoyrls.Config{Path: dir})
	watching(t, s)
	client := dial(t, s)
	write(t, dir, "b.yaml", limits("b", 2))
	await.True(t, "a file that comes", func() bool { return limitOf(t, client, "b") == 2 })
	write(t, dir, "a.yaml", limits("a", 3))
	await.True(t, "a file that changes", func() bool { return limitOf(t, client, "a") == 3 })
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	await.True(t, "a file that goes", func() bool { return limitOf(t, client, "b") == 0 })
}

func TestInvalidConfigurationKeepsThePreviousOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1))
	s := newServer(t, envoyrls.Config{Path: dir})
	client := dial(t, s)
	for name, spoil := range map[string]func(){
		"a wrong file":      func() { write(t, dir, "a.yaml", "domain: api\nwrong: 1\n") },
		"another that is":   func() { write(t, dir, "a.yaml", limits("api", 9)); write(t, dir, "b.yaml", "domain: [") },
		"a domain twice":    func() { write(t, dir, "b.yaml", limits("api", 9)) },
		"an empty file":     func() { write(t, dir, "b.yaml", "") },
		"no file any more":  func() { remove(t, dir, "a.yaml"); remove(t, dir, "b.yaml") },
		"no directory more": func() { _ = os.RemoveAll(dir) },
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		remove(t, dir, "b.yaml")
		write(t, dir, "a.yaml", limits("api", 1))
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		before := s.Stats()
		spoil()
		if err := s.Reload(); err == nil {
			t.Errorf("%s: got no error", name)
		}
		after := s.Stats()
		if after.LoadsRefused != before.LoadsRefused+1 || after.Loads != before.Loads {
			t.Errorf("%s: got %d loads and %d refused after %d and %d, want one refused more", name, after.Loads, after.LoadsRefused, before.Loads, before.LoadsRefused)
		}
		if got := limitOf(t, client, "api"); got != 1 {
			t.Errorf("%s: got %d an hour, want the 1 before", name, got)
		}
		if !s.Healthy() {
			t.Errorf("%s: got unhealthy, want healthy", name)
		}
	}
}

func remove(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestRequestsAreRefusedWithoutConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var health []bool
	s := newServer(t, envoyrls.Config{Path: dir, OnHealth: func(ok bool) { health = append(health, ok) }})
	client := dial(t, s)
	if _, err := client.ShouldRateLimit(t.Context(), asking("api", "u")); grpcstatus.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v, want FailedPrecondition", err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(`{"domain":"api","descriptors":[{}]}`)))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "no rate limit configuration") {
		t.Errorf("in JSON: got %d %s, want 400 and why", w.Code, w.Body)
	}
	if s.Healthy() || get(s, "/healthcheck") != http.StatusInternalServerError {
		t.Error("got healthy, want unhealthy")
	}
	write(t, dir, "a.yaml", limits("api", 1))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := limitOf(t, client, "api"); got != 1 {
		t.Errorf("got %d an hour, want 1", got)
	}
	if !s.Healthy() || get(s, "/healthcheck") != http.StatusOK {
		t.Error("got unhealthy, want healthy")
	}
	s.Drain()
	if s.Healthy() || get(s, "/healthcheck") != http.StatusInternalServerError {
		t.Error("drained: got healthy, want unhealthy")
	}
	if got := limitOf(t, client, "api"); got != 1 {
		t.Errorf("drained: got %d an hour, want 1: it still answers", got)
	}
	if got := fmt.Sprint(health); got != "[true false]" {
		t.Errorf("got calls of OnHealth %s, want [true false]", got)
	}
}

func TestNewFailsOnInvalidConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: a\ndescriptors: 5\n")
	for name, c := range map[string]envoyrls.Config{
		"a wrong file": {Path: dir, Store: newSmallStore(t)},
		"no directory": {Path: filepath.Join(dir, "gone"), Store: newSmallStore(t)},
		"no store":     {Path: dir},
		"no engine":    {Store: newSmallStore(t)},
		"descriptors":  {Path: dir, Store: newSmallStore(t), Limits: envoyrls.Limits{Descriptors: -1}},
	} {
		if _, err := envoyrls.New(c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestMergeDomainsMergesFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: api\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	write(t, dir, "b.yaml", "domain: api\ndescriptors:\n- {key: path, value: /a*, rate_limit: {unit: hour, requests_per_unit: 2}}\n")
	if _, err := envoyrls.New(envoyrls.Config{Path: dir, Store: newSmallStore(t), Logger: quiet}); err == nil || !strings.Contains(err.Error(), "merge_domains") {
		t.Errorf("two files of a domain: got error %v, want one that names merge_domains", err)
	}
	s := newServer(t, envoyrls.Config{Path: dir, MergeDomains: true})
	client := dial(t, s)
	r := asking("api", "u")
	r.Descriptors = append(r.Descriptors, asking("api", "/abc").Descriptors[0])
	r.Descriptors[1].Entries[0].Key = "path"
	got, err := client.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if text, want := answerText(got), "OK 0 of 1/HOUR"; !strings.Contains(text, want) || !strings.Contains(text, "OK 1 of 2/HOUR") {
		t.Errorf("limits of both files: got %s, want 1 an hour by user and 2 by path", text)
	}
	write(t, dir, "c.yaml", limits("api", 9))
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "c.yaml:3") || !strings.Contains(err.Error(), "user") {
		t.Errorf("the same descriptor in two files: got error %v, want one that names c.yaml:3 and the key", err)
	}
	if got := limitOf(t, client, "api"); got != 1 {
		t.Errorf("after the refusal: got %d an hour, want the 1 before", got)
	}
}

func TestIgnoredFilesAreLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("a", 1))
	write(t, dir, "b.yaml.disabled", limits("b", 1))
	write(t, dir, ".c.yaml", limits("c", 1))
	if err := os.MkdirAll(filepath.Join(dir, "..data", "d.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "e.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "f.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	var book logbook.Book
	s := newServer(t, envoyrls.Config{Path: dir, Logger: book.Logger()})
	log := book.String()
	if !strings.Contains(log, "files ignored") || !strings.Contains(log, "count=4") {
		t.Errorf("got the log\n%s\nwant a line on 4 ignored files", log)
	}
	for _, name := range []string{"b.yaml.disabled", ".c.yaml", "e.yaml"} {
		if !strings.Contains(log, name) {
			t.Errorf("got the log\n%s\nwant it to name %s", log, name)
		}
	}
	if strings.Contains(log, "..data") {
		t.Errorf("got the log\n%s\nwant nothing about ..data of a ConfigMap", log)
	}
	for range 2 { // an ignored file is logged once, also if the files that are read have not changed
		write(t, dir, "g.yaml.disabled", limits("b", 1))
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	if log := book.String(); strings.Count(log, "files ignored") != 2 || !strings.Contains(log, "g.yaml.disabled") {
		t.Errorf("got the log\n%s\nwant a second line with g.yaml.disabled", log)
	}
}
