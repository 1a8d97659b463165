package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/headgate/headgate/server/control"
)

// An Imported is the result of an import.
type Imported struct {
	Revision  int64 `json:"revision"`
	Clients   int   `json:"clients"`
	Created   int   `json:"created"`
	Updated   int   `json:"updated"`
	Deleted   int   `json:"deleted"`
	Unchanged int   `json:"unchanged"`
}

// Import registers clients, one line of JSON each. With prune, other clients are removed. Only its context bounds it.
func (c *Client) Import(ctx context.Context, lines io.Reader, prune bool) (*Imported, error) {
	query := url.Values{}
	if prune {
		query.Set("prune", "true")
	}
	response, err := c.send(ctx, apiCall{
		method: http.MethodPost, path: "/v1/clients:import", query: query, body: lines,
		media: control.SnapshotType,
	})
	if err != nil {
		return nil, err
	}
	defer discard(response)
	imported := &Imported{}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxProblem)).Decode(imported); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return imported, nil
}
