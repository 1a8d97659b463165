package api

import (
	"net/http"

	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// switchDemoTraffic serves PUT /v1/demo-traffic. It turns the demo traffic of this process on or off.
func (s *Server) switchDemoTraffic(c *call.Call) error {
	var body struct {
		On *bool `field:"on"` // ReadJSON reads the tag "field"
	}
	if err := c.ReadJSON(&body); err != nil {
		return err
	}
	if body.On == nil {
		return problem.New(http.StatusBadRequest, `The body has no "on": want {"on": true} or {"on": false}.`)
	}
	var traffic Toggle
	if s.config.DemoTraffic != nil {
		traffic = s.config.DemoTraffic()
	}
	if traffic == nil {
		return problem.New(http.StatusNotFound,
			"This node has no demo traffic. Only a node in front of the built-in service can have it.")
	}
	traffic.Set(*body.On)
	return c.Respond(http.StatusOK, struct {
		On bool `json:"on"`
	}{traffic.On()})
}
