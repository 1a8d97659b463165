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

// openAPI serves GET /openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(openAPI))}
	_, _ = w.Write(openAPI) // an error means that the caller has disconnected
}

// Paths returns the paths that this package serves, sorted.
func Paths() []string { return slices.Sorted(maps.Keys(routes)) }
