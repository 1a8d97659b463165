package config

import "github.com/headgate/headgate/server/telemetry/traffic"

// Traffic configures the statistics about requests and clients.
type Traffic struct {
	Clients NameMode `field:"clients" default:"clear" doc:"How clients are identified in the statistics: clear (by name, but API keys, bearer tokens, cookies, headers and query parameters by a short form and a hash), hash (by hashes only) or off (clients are not counted). Hashes are keyed with key_secret_file."`
}

// A NameMode is a way to identify clients in the statistics. The zero value is namesClear.
type NameMode uint8

// The modes correspond to those of traffic.NameMode.
const (
	namesClear NameMode = iota
	namesHash
	namesOff
)

var nameModes = choices[NameMode]{
	{namesClear, string(traffic.Clear)}, {namesHash, string(traffic.Hash)}, {namesOff, string(traffic.Off)},
}

// TrafficNamer returns the Namer of the configured mode. Hashes are keyed with secret, from key_secret_file.
func (c *Config) TrafficNamer(secret []byte) *traffic.Namer {
	return traffic.NewNamer(traffic.NameMode(nameModes.format(c.Traffic.Clients)), secret)
}
