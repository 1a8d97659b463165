package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate/memstore"
)

func TestRequestsWaitForTheirLimit(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	client := newClient(store)
	start := time.Now()
	for range 3 {
		response, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if took := time.Since(start); took < 400*time.Millisecond {
		t.Errorf("three requests at 5/s took %v, want at least 400ms", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(request); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without time to wait: got %v, want %v", err, context.DeadlineExceeded)
	}
}
