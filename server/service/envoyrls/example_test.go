package envoyrls_test

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/envoyrls"
)

func Example() {
	dir, err := os.MkdirTemp("", "envoyrls")
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	limits := `
domain: edge
descriptors:
- key: user
  rate_limit: {unit: year, requests_per_unit: 2}
`
	if err := os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(limits), 0o600); err != nil {
		log.Panic(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = store.Close() }()
	s, err := envoyrls.New(envoyrls.Config{Path: dir, Store: store, CountDenied: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Panic(err)
	}
	// Envoys ask by gRPC: s.Register(server). Others can ask by JSON.
	for range 3 {
		request := `{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(request)))
		fmt.Println(answer.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

func ExampleParse() {
	_, err := envoyrls.Parse("edge.yaml", []byte("domain: edge\ndescriptors:\n- key: user\n  rate_limit: {unit: fortnight, requests_per_unit: 2}\n"))
	fmt.Println(err)
	// Output:
	// edge.yaml:4:22: descriptors[0].rate_limit.unit: unit "fortnight": want second, minute, hour, day, week, month or year
	//       rate_limit: {unit: fortnight, requests_per_unit: 2}
	//                          ^
}
