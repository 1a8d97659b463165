package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/headgate/headgate/control"
)

// An Imported is what came of an import.
type Imported struct {
	Revision  int64 `json:"revision"`
	Clients   int   `json:"clients"`
	Created   int   `json:"created"`
	Updated   int   `json:"updated"`
	Deleted   int   `json:"deleted"`
	Unchanged int   `json:"unchanged"`
}

// Import registers clients, a line of JSON for each. With prune, those that do not come are removed. It ends by its context
// alone.
func (c *Client) Import(ctx context.Context, lines io.Reader, prune bool) (*Imported, error) {
	query := url.Values{}
	if prune {
		query.Set("prune", "true")
	}
	answer, err := c.send(ctx, call{method: http.MethodPost, path: "/v1/clients:import", query: query, body: lines, media: control.SnapshotType})
	if err != nil {
		return nil, err
	}
	defer discard(answer)
	made := &Imported{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxProblem)).Decode(made); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return made, nil
}
