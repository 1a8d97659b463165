package top

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/remote"
)

// The rules service sorts the rules, because it returns only some of many.
func TestRulesAreRequestedInTheOrderShown(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traffic" {
			got = append(got, r.URL.Query().Get("order"))
		}
		_, _ = fmt.Fprint(w, `{}`)
	}))
	defer server.Close()
	client, err := remote.New(remote.Config{URL: server.URL, Token: "hg_test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []Order{ByDenied, ByRequests} {
		if _, err := Fetch(t.Context(), client, Query{Window: time.Minute, Order: order}); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(got) != "[denied requests]" {
		t.Errorf("got the orders %v, want denied and requests", got)
	}
}

func TestFilterFindsTheClientsOfARule(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case r.URL.Path == "/v1/traffic":
			_, _ = fmt.Fprint(w, `{"step":"1s","rules":[{"rule":"search"},{"rule":"exports"}]}`)
		case r.URL.Path != "/v1/traffic/clients":
			_, _ = fmt.Fprint(w, `{}`)
		case q.Get("rule") == "search":
			_, _ = fmt.Fprint(w, `{"clients":[{"client":{"user":"a"},"rule":"search","requests":3},{"client":{"user":"search-bot"},"rule":"search","requests":1}]}`)
		case q.Get("q") == "search":
			_, _ = fmt.Fprint(w, `{"clients":[{"client":{"user":"search-bot"},"rule":"exports","requests":9},{"client":{"user":"search-bot"},"rule":"search","requests":1}]}`)
		default:
			t.Errorf("got a call of %s", r.URL)
		}
	}))
	defer server.Close()
	client, err := remote.New(remote.Config{URL: server.URL, Token: "hg_test"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fetch(t.Context(), client, Query{Window: time.Minute, Order: ByRequests, Search: "search"})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range f.SortedClients(ByRequests) {
		got += fmt.Sprintf("%s under %s: %d; ", ClientText(c.Client), c.Rule, c.Requests)
	}
	if want := "user=search-bot under exports: 9; user=a under search: 3; user=search-bot under search: 1; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
