// Command outbound calls an API no faster than it allows.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// A limitedTransport waits for the limit of each host before it sends a request.
type limitedTransport struct {
	limit *headgate.Bound
	next  http.RoundTripper
}

// RoundTrip waits until the request may be sent, or its context ends.
func (p limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.limit.Wait(r.Context(), r.URL.Host); err != nil {
		return nil, err
	}
	return p.next.RoundTrip(r)
}

func newClient(limiter headgate.Limiter) *http.Client {
	return &http.Client{Transport: limitedTransport{
		limit: headgate.MustBind(limiter, headgate.MustParseLimit("5/s burst 1")), next: http.DefaultTransport,
	}}
}

func main() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	client := newClient(store)
	for _, url := range os.Args[1:] {
		response, err := client.Get(url)
		if err != nil {
			log.Print(err)
			continue
		}
		response.Body.Close()
		fmt.Println(url, response.Status)
	}
}
