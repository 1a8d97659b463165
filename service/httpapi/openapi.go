package httpapi

import (
	_ "embed"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the description of the API, in OpenAPI 3.1.
func OpenAPI() []byte { return append([]byte(nil), openAPI...) }

// openAPI answers GET /openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(openAPI))}
	_, _ = w.Write(openAPI) // a caller that is gone has no use for it
}

// Paths returns where this package answers, in order.
func Paths() []string { return slices.Sorted(maps.Keys(routes)) }
