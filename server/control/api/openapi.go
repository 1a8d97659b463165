package api

import (
	"bytes"
	_ "embed"
	"net/http"
	"strconv"
)

//go:embed openapi.json
var description []byte

// OpenAPI returns the description of the API, in OpenAPI 3.1.
func OpenAPI() []byte { return bytes.Clone(description) }

// openAPI serves GET /openapi.json.
func (s *Server) openAPI(c *call) error {
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(description)))
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(description) // fails only if the caller has disconnected
	return nil
}
