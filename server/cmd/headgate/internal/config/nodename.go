package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
)

// NodeName returns the ID of this node in the rules service. The default begins with the host name and ends with a hash
// of the state directory and addresses, so that nodes on the same host have different IDs. It stays the same after a
// restart, unless a port is 0.
func (c *Config) NodeName() string {
	if c.NodeID != "" {
		return c.NodeID
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	state, _ := c.StateDir() // without a state directory, the addresses alone identify the node
	parts := []string{state, c.GatewayAddr, c.APIAddr, c.GRPCAddr, c.RESPAddr, c.AdminAddr}
	for i := range c.Gateway.Listeners {
		parts = append(parts, c.Gateway.Listeners[i].Address)
	}
	for _, addr := range parts[1:] {
		if strings.HasSuffix(addr, ":0") { // a random port does not identify the node
			parts = append(parts, rand.Text())
			break
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	const maxHost = 100 // bytes, so that the id stays within the maximum length of names
	if len(host) > maxHost {
		host = host[:maxHost]
	}
	return strings.Map(nodeIDRune, host) + "-" + hex.EncodeToString(sum[:3])
}

func nodeIDRune(r rune) rune {
	if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '-'
}
