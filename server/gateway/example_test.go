package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate/server/gateway"
)

// A gateway in front of one service, with a limiter that rejects requests without a key.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %s", r.URL.Path, r.Header.Get("X-Forwarded-For"))
	}))
	defer service.Close()

	g, err := gateway.New(gateway.Config{
		Listeners: []gateway.Listener{{Address: "127.0.0.1:0"}},
		Routes:    []gateway.Route{{Path: "/", Upstreams: []gateway.Upstream{{URL: service.URL}}}},
		Limit: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-API-Key") == "" {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				next.ServeHTTP(w, r)
			})
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := g.Listen(); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- g.Serve(ctx) }()

	for _, key := range []string{"", "k1"} {
		r, _ := http.NewRequest(http.MethodGet, "http://"+g.Addrs()[0].String()+"/a/../hello", http.NoBody)
		r.Header.Set("X-API-Key", key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Printf("%d %q\n", res.StatusCode, body)
	}

	stop() // drains
	fmt.Println(<-ended)
	// Output:
	// 429 ""
	// 200 "/hello for 127.0.0.1"
	// <nil>
}

// Errors of a Config name the field and valid values.
func ExampleConfig_Validate() {
	c := gateway.Config{
		Routes:   []gateway.Route{{Host: "api.example.com:80", Upstreams: []gateway.Upstream{{URL: "localhost:9000"}}}},
		Upgrades: []string{"h2c"},
	}
	fmt.Println(c.Validate())
	// Output:
	// gateway: Upgrades[0] "h2c": want a protocol that carries no HTTP requests, since limits would not see them
	// gateway: Routes[0].Host "api.example.com:80": want a name such as api.example.com or *.example.com, without a port
	// gateway: Routes[0].Upstreams[0].URL "localhost:9000": want http://host:port, https://host:port, h2c://host:port, h2://host:port, unix:/path or unix+h2c:/path, without a path on the server, a query or a user
}
