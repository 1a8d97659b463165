package httpapi

import (
	_ "embed"
	"net/http"
	"strconv"
)

// openAPI is the description of the API, in OpenAPI 3.1.
//
//go:embed openapi.json
var openAPI []byte

// openAPI serves GET /openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(openAPI))}
	_, _ = w.Write(openAPI) // an error means that the caller has disconnected
}
