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

// bodyBounds limit the memory to parse a body to 64 MB. Ten thousand rules in JSON are within them.
var bodyBounds = source.Bounds{JSONTokens: 300_000, JSONItems: 50_000, YAMLBytes: 512 << 10, YAMLTokens: 80_000}

// BodyTime is the time that callers have to send a body, and to receive a response.
const BodyTime = time.Minute

// The names of bodies for parsers, which tell the format by the ending.
const (
	Unnamed = "body" // no Content-Type: the parser detects the format
	JSON    = "body.json"
	YAML    = "body.yaml"
	NDJSON  = "body.ndjson"
)

// ReadBody returns the body and its name. A large body waits until there is memory for it.
func (c *Call) ReadBody() (name string, data []byte, err error) {
	if name, err = c.BodyName(); err != nil {
		return "", nil, err
	}
	if c.R.ContentLength > c.bodies.maxBytes {
		return "", nil, c.tooLarge()
	}
	c.SetDeadlines(BodyTime, 2*BodyTime)
	body := http.MaxBytesReader(c.W, c.R.Body, c.bodies.maxBytes)
	if data, err = io.ReadAll(io.LimitReader(body, smallBody)); err == nil && len(data) == smallBody {
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
		return "", nil, problem.New(http.StatusBadRequest, "The body did not arrive: %v.", err)
	}
	if err := bodyBounds.Check(name, data); err != nil {
		return "", nil, problem.New(http.StatusRequestEntityTooLarge, "The body takes too much memory: %v. "+
			"Large bodies are sent as JSON, and clients line by line to /v1/clients:import.", err)
	}
	return name, data, nil
}

// readRest returns a whole body, of which the first part is already read. The length of the whole body is negative if it
// is unknown.
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
		"Clients can be sent line by line to /v1/clients:import, as many as there are.", c.bodies.maxBytes)
}

// BodyName returns the name of the body: Unnamed, JSON, YAML or NDJSON, by its Content-Type.
func (c *Call) BodyName() (string, error) {
	if e := c.R.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", problem.New(http.StatusUnsupportedMediaType,
			"Content-Encoding %s: send the body as it is.", rules.Quote(e))
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

// ReadJSON decodes a JSON body into a pointer to a struct with `field` tags, like decodeJSON.
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
