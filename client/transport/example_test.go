package transport_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headgate/headgate/client/transport"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"all";r=0;t=60`)
	}))
	defer server.Close()
	limited, err := transport.New(transport.Options{MaxWait: -1}) // fail rather than wait
	if err != nil {
		fmt.Println(err)
		return
	}
	c := &http.Client{Transport: limited}
	for range 2 {
		response, err := c.Get(server.URL)
		var denied *transport.LimitedError
		switch {
		case errors.As(err, &denied):
			fmt.Println("not sent: try again in", denied.RetryAfter.Round(time.Minute))
		case err != nil:
			fmt.Println(err)
			return
		default:
			fmt.Println(response.Status)
			_ = response.Body.Close()
		}
	}
	// Output:
	// 200 OK
	// not sent: try again in 1m0s
}
