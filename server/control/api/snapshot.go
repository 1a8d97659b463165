package api

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/feed"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// snapshotTime limits the time that a caller takes to receive a snapshot.
const snapshotTime = 2 * time.Minute

// getSnapshot serves GET /v1/snapshot.
func (s *Server) getSnapshot(c *call.Call) error {
	since, err := readSince(c)
	if err != nil {
		return err
	}
	tags, isAny, err := c.EntityTags("If-None-Match")
	if err != nil {
		return err
	}
	current, err := control.LoadCurrentMark(c.R.Context(), s.config.DB, c.Namespace)
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Accept-Encoding, Authorization")
	if isAny && current.Revision > 0 || slices.Contains(tags, current.String()) {
		h.Set("ETag", `"`+current.String()+`"`)
		c.W.WriteHeader(http.StatusNotModified)
		return nil
	}
	request := feed.Request{Namespace: c.Namespace, Since: since, Current: current}
	snapshot, err := s.snapshots.Get(c.R.Context(), request)
	if err != nil {
		return err
	}
	h.Set("ETag", `"`+snapshot.Mark.String()+`"`)
	h.Set("Content-Type", control.SnapshotType)
	c.SetDeadlines(call.BodyTime, snapshotTime)
	if acceptsGzip(c.R) {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(snapshot.Gzip)))
		_, _ = c.W.Write(snapshot.Gzip) // fails only if the node has disconnected
		return nil
	}
	plain, err := gzip.NewReader(bytes.NewReader(snapshot.Gzip))
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	_, _ = io.Copy(c.W, plain) // after an error, the node detects that the last line is missing
	return nil
}

// readSince reads the parameter since, the revision whose content the caller has. Nodes send a mark, a revision with
// its commit time. People may send only the number.
func readSince(c *call.Call) (control.Mark, error) {
	text := c.Query.Get("since")
	if strings.Contains(text, "-") {
		m, err := control.ParseMark(text)
		if err != nil {
			return m, problem.InvalidQuery("since", text, "a revision, or the ETag of a snapshot without its quotes")
		}
		return m, nil
	}
	n, err := c.Number("since", 0, 0, 1<<62)
	if err != nil || n == 0 {
		return control.Mark{}, err
	}
	return control.Mark{Revision: n, CommitMicros: feed.AnyTime}, nil
}

// acceptsGzip reports whether the caller accepts a response in gzip.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); name == "gzip" || name == "*" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q="), 64)
			return err != nil || q > 0 // without a weight, gzip is accepted
		}
	}
	return false
}
