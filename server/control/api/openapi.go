package api

import (
	"bytes"
	_ "embed"
	"net/http"
	"strconv"

	"github.com/headgate/headgate/server/control/api/internal/call"
)

//go:embed openapi.json
var description []byte

// OpenAPI returns the description of the API, in OpenAPI 3.1.
func OpenAPI() []byte { return bytes.Clone(description) }

// openAPI serves GET /openapi.json.
func (s *Server) openAPI(c *call.Call) error {
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(description)))
	c.W.WriteHeader(http.StatusOK)
	_, _ = c.W.Write(description) // fails only if the caller has disconnected
	return nil
}
