package api

import (
	_ "embed"
	"net/http"
	"strconv"
)

//go:embed openapi.json
var description []byte

// OpenAPI returns the description of the API, in OpenAPI 3.1.
func OpenAPI() []byte { return append([]byte(nil), description...) }

// openAPI answers GET /openapi.json.
func (s *Server) openAPI(c *call) error {
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(description)))
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(description) // a caller that is gone has no use for it
	return nil
}
