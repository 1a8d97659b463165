package call

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/internal/bodytype"
)

// bodyBounds limits the memory for parsing a body to 64 MB. A body with ten thousand rules in JSON is within the
// bounds.
var bodyBounds = source.Bounds{JSONTokens: 300_000, JSONItems: 50_000, YAMLBytes: 512 << 10, YAMLTokens: 80_000}

// BodyTime limits the time that a caller takes to send a body, and the time that it takes to receive a response.
const BodyTime = time.Minute

// The file names of bodies. Parsers select the format by the extension.
const (
	Unnamed = "body" // no Content-Type: the parser detects the format
	JSON    = "body.json"
	YAML    = "body.yaml"
	NDJSON  = "body.ndjson"
)

// ReadBody returns the body and its file name. Before it reads a large body, it waits until there is memory for it.
func (c *Call) ReadBody() (name string, data []byte, err error) {
	if name, err = c.BodyName(); err != nil {
		return "", nil, err
	}
	if c.R.ContentLength > c.bodies.maxBytes {
		return "", nil, c.tooLarge()
	}
	c.SetDeadlines(BodyTime, 2*BodyTime)
	body := http.MaxBytesReader(c.W, c.R.Body, c.bodies.maxBytes)
	if data, err = io.ReadAll(io.LimitReader(body, minLargeBody)); err == nil && len(data) == minLargeBody {
		if c.releaseLarge == nil {
			if c.releaseLarge, err = c.bodies.acquire(c.R.Context(), c.Caller); err != nil {
				return "", nil, err
			}
		}
		c.SetDeadlines(BodyTime, 2*BodyTime)
		data, err = readRest(data, body, c.R.ContentLength)
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return "", nil, c.tooLarge()
	case err != nil:
		return "", nil, problem.New(http.StatusBadRequest, "The body could not be received: %v.", err)
	}
	if err := bodyBounds.Check(name, data); err != nil {
		return "", nil, problem.New(http.StatusRequestEntityTooLarge, "The body takes too much memory: %v. "+
			"Send large bodies as JSON, and clients line by line to /v1/clients:import.", err)
	}
	return name, data, nil
}

// readRest reads the rest of a body and returns the whole body. first is the part that was already read. length is the
// length of the whole body, negative if it is unknown.
func readRest(first []byte, body io.Reader, length int64) ([]byte, error) {
	buffer := bytes.NewBuffer(first)
	if length > 0 {
		buffer = bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead))
		buffer.Write(first)
	}
	_, err := buffer.ReadFrom(body)
	return buffer.Bytes(), err
}

func (c *Call) tooLarge() error {
	return problem.New(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes. "+
		"Any number of clients can be sent line by line to /v1/clients:import.", c.bodies.maxBytes)
}

// BodyName returns the file name of the body, Unnamed, JSON, YAML or NDJSON, according to its Content-Type.
func (c *Call) BodyName() (string, error) {
	if e := c.R.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", problem.New(http.StatusUnsupportedMediaType,
			"Content-Encoding %s: send the body without an encoding.", rules.Quote(e))
	}
	contentType := c.R.Header.Get("Content-Type")
	switch bodytype.Of(contentType) {
	case bodytype.Unset:
		return Unnamed, nil
	case bodytype.JSON:
		return JSON, nil
	case bodytype.YAML:
		return YAML, nil
	case bodytype.NDJSON:
		return NDJSON, nil
	default:
		return "", problem.New(http.StatusUnsupportedMediaType,
			"Content-Type %s: want application/json or application/yaml.", rules.Quote(contentType))
	}
}

// ReadJSON decodes a JSON body into the struct that v points to. The struct has `field` tags. Unknown fields are
// errors.
func (c *Call) ReadJSON(v any) error {
	data, err := c.ReadJSONBody()
	if err != nil {
		return err
	}
	return decodeJSON(data, v)
}

// ReadJSONBody reads a JSON body without decoding it.
func (c *Call) ReadJSONBody() ([]byte, error) {
	name, data, err := c.ReadBody()
	switch {
	case err != nil:
		return nil, err
	case name != Unnamed && name != JSON:
		return nil, problem.New(http.StatusUnsupportedMediaType, "Send JSON.")
	case len(bytes.TrimSpace(data)) == 0:
		return nil, problem.New(http.StatusBadRequest, "There is no body: want a JSON object.")
	}
	return data, nil
}
