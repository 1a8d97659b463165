package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/internal/bodytype"
)

// bodyBounds limit the memory to parse a body to 64 MB. Ten thousand rules in JSON are within them.
var bodyBounds = source.Bounds{JSONTokens: 300_000, JSONItems: 50_000, YAMLBytes: 512 << 10, YAMLTokens: 80_000}

// bodyTime is the time that callers have to send a body, and to receive a response.
const bodyTime = time.Minute

// The names of bodies, by which their form is known.
const (
	unnamedBody = "body" // the form is detected
	jsonBody    = "body.json"
	yamlBody    = "body.yaml"
	ndjsonBody  = "body.ndjson"
)

// readBody returns the body and its name. A large body waits until other large bodies are done.
func (c *call) readBody() (name string, data []byte, err error) {
	if name, err = c.bodyName(); err != nil {
		return "", nil, err
	}
	if c.r.ContentLength > c.maxBody {
		return "", nil, c.tooLarge()
	}
	c.setDeadlines(bodyTime, 2*bodyTime)
	body := http.MaxBytesReader(c.w, c.r.Body, c.maxBody)
	if data, err = io.ReadAll(io.LimitReader(body, smallBody)); err == nil && len(data) == smallBody {
		if c.releaseLarge == nil {
			if c.releaseLarge, err = c.large.acquire(c.r.Context(), c.caller); err != nil {
				return "", nil, err
			}
		}
		c.setDeadlines(bodyTime, 2*bodyTime)
		data, err = readRest(data, body, c.r.ContentLength)
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

// readRest reads the rest of a body after its first part. The length of the whole body is negative if it is unknown.
func readRest(first []byte, body io.Reader, length int64) ([]byte, error) {
	buffer := bytes.NewBuffer(first)
	if length > 0 {
		buffer = bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead))
		buffer.Write(first)
	}
	_, err := buffer.ReadFrom(body)
	return buffer.Bytes(), err
}

func (c *call) tooLarge() error {
	return problem.New(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes. "+
		"Clients can be sent line by line to /v1/clients:import, as many as there are.", c.maxBody)
}

// bodyName returns the name of the body by its Content-Type.
func (c *call) bodyName() (string, error) {
	if e := c.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", problem.New(http.StatusUnsupportedMediaType,
			"Content-Encoding %s: send the body as it is.", rules.Quote(e))
	}
	contentType := c.r.Header.Get("Content-Type")
	switch bodytype.Of(contentType) {
	case bodytype.Unset:
		return unnamedBody, nil
	case bodytype.JSON:
		return jsonBody, nil
	case bodytype.YAML:
		return yamlBody, nil
	case bodytype.NDJSON:
		return ndjsonBody, nil
	default:
		return "", problem.New(http.StatusUnsupportedMediaType,
			"Content-Type %s: want application/json or application/yaml.", rules.Quote(contentType))
	}
}

// readJSON reads a JSON body like decodeJSON.
func (c *call) readJSON(v any) error {
	data, err := c.readJSONBody()
	if err != nil {
		return err
	}
	return decodeJSON(data, v)
}

// readHeartbeat reads a heartbeat. It ignores unknown fields, which a node of a later version may send.
func (c *call) readHeartbeat() (n control.Node, err error) {
	data, err := c.readJSONBody()
	if err != nil {
		return n, err
	}
	if _, err := source.Read(jsonBody, data); err != nil { // finds duplicate fields
		return n, err
	}
	err = json.Unmarshal(data, &n)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		err = problem.InvalidField(mismatch.Field, "a "+mismatch.Value, "what /openapi.json describes")
	case err != nil: // the syntax is valid, so it is the only field with a form of its own
		err = problem.InvalidField("started", err.Error(), "a time as in 2030-01-31T12:00:00Z")
	}
	return n, err
}

func (c *call) readJSONBody() ([]byte, error) {
	name, data, err := c.readBody()
	switch {
	case err != nil:
		return nil, err
	case name != unnamedBody && name != jsonBody:
		return nil, problem.New(http.StatusUnsupportedMediaType, "Send JSON.")
	case len(bytes.TrimSpace(data)) == 0:
		return nil, problem.New(http.StatusBadRequest, "There is no body: want a JSON object.")
	}
	return data, nil
}
