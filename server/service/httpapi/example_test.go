package httpapi_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/server/service/httpapi"
)

// newExample returns the address of an API with two requests an hour for each user.
func newExample() (url string, stop func()) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	doc, err := file.Parse("rules.yaml", []byte("rules: [{ id: search, key: user, fallback: skip, limits: 2/h fixed-window }]"))
	if err != nil {
		log.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		log.Fatal(err)
	}
	decide, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	proxies, err := identity.ParseNetworks("127.0.0.1")
	if err != nil {
		log.Fatal(err)
	}
	id, err := identity.New(identity.Config{TrustedProxies: proxies})
	if err != nil {
		log.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Config{
		Engine: decide, Identifier: id, Fields: httplimit.Fields{NoRateLimit: true, NoXRateLimit: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	s := httptest.NewServer(api)
	return s.URL, func() {
		s.Close()
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// A service calls the API before a user may search.
func Example() {
	url, stop := newExample()
	defer stop()
	for range 3 {
		r, err := http.Post(url+"/v1/ratelimit", "application/json", strings.NewReader(`{"ruleId":"search","client":{"userId":"alice"}}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			fmt.Println(err)
			return
		}
		passed, _, _ := strings.Cut(string(body), ",")
		fmt.Println(r.StatusCode, passed)
	}
	// Output:
	// 200 {"passed":true
	// 200 {"passed":true
	// 429 {"passed":false
}

// A proxy calls forward-auth with the headers of a request.
func Example_forwardAuth() {
	url, stop := newExample()
	defer stop()
	for range 3 {
		r, err := http.NewRequest(http.MethodGet, url+"/v1/forward-auth", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("X-Forwarded-Method", "GET")
		r.Header.Set("X-Forwarded-Host", "api.example.com")
		r.Header.Set("X-Forwarded-Uri", "/search?q=books")
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		r.Header.Set("X-User-ID", "alice") // authenticated by the proxy
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = answer.Body.Close()
		fmt.Println(answer.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}
