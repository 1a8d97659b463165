package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate/server/gateway/upstream"
)

func ExamplePool_Forward() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %s", r.URL.Path, r.Header.Get("X-Forwarded-For"))
	}))
	defer service.Close()

	pool, err := upstream.New(upstream.Config{Address: service.Listener.Addr().String()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = pool.Close() }()

	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := pool.Forward(r.Context(), w, r, upstream.Head{
			Target: r.URL.EscapedPath(),
			Fields: []upstream.Field{{Name: "X-Forwarded-For", Value: "203.0.113.9"}},
		})
		var failed *upstream.Error
		switch {
		case err != nil && out.Sent:
			panic(http.ErrAbortHandler) // the response must not look complete to the client
		case errors.As(err, &failed):
			w.WriteHeader(failed.Status())
		}
	}))
	defer gateway.Close()

	response, err := http.Get(gateway.URL + "/items")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, string(body), err)
	// Output: 200 OK /items for 203.0.113.9 <nil>
}
