package config

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/service"
	"time"
)

// Service is what bounds the listeners of the decision service. What is not given is as the packages of service have it.
type Service struct {
	MaxConns int  `field:"max_conns" default:"20000" doc:"How many connections each listener may have at once. More are closed as they come."`
	MaxBody  Size `field:"max_body" default:"1MiB" doc:"How long the body of a call over HTTP may be."`
	MaxBatch int  `field:"max_batch" default:"1000" doc:"How many decisions one batch may ask for."`
}

// checkService checks what the packages would refuse, to say where it stands.
func (c *Config) checkService() error {
	for _, n := range []struct {
		name        string
		value       int64
		least, most int64
	}{
		{"max_conns", int64(c.Service.MaxConns), 1, 1_000_000},
		{"max_body", int64(c.Service.MaxBody), 1 << 10, 64 << 20},
		{"max_batch", int64(c.Service.MaxBatch), 1, 100_000},
	} {
		if n.value != 0 && (n.value < n.least || n.value > n.most) {
			return c.at("service."+n.name, strconv.FormatInt(n.value, 10), fmt.Sprintf("%d to %d", n.least, n.most))
		}
	}
	return nil
}

// Token returns what callers of the decision service must show, nil if that is nothing.
func (c *Config) Token() (*service.Token, error) {
	if c.APITokenFile == "" {
		return nil, nil
	}
	t, err := service.ReadToken(c.APITokenFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where("api-token-file"), err)
	}
	return t, nil
}

// Drain returns for how long everybody is still accepted when the node is to end, and how long all of it may take.
func (c *Config) Drain() (delay, timeout time.Duration) {
	return c.Gateway.DrainDelay, cmp.Or(c.Gateway.DrainTimeout, gateway.DefaultDrainTimeout)
}

// ServiceOff tells whether the decision service is off.
func (c *Config) ServiceOff() bool { return c.APIAddr == Off }
