package config

import "github.com/headgate/headgate/server/telemetry/traffic"

// Traffic configures the statistics about requests and clients.
type Traffic struct {
	Clients ClientNames `field:"clients" default:"clear" doc:"How clients are kept in the statistics: clear (by name; API keys, bearer tokens, cookies, headers and query parameters as a short form and a hash), hash (hashes only) or off (clients are not counted). Hashes are keyed with key_secret_file."`
}

// ClientNames says how the names of clients are kept. The zero value is in clear.
type ClientNames uint8

// The ways to keep names.
const (
	namesClear ClientNames = iota
	namesHash
	namesOff
)

var clientNames = choices[ClientNames]{
	{namesClear, string(traffic.Clear)}, {namesHash, string(traffic.Hash)}, {namesOff, string(traffic.Off)},
}

// TrafficNamer returns how the names of clients are kept, with the secret of key_secret_file.
func (c *Config) TrafficNamer(secret []byte) *traffic.Namer {
	return traffic.NewNamer(traffic.ClientNames(clientNames.format(c.Traffic.Clients)), secret)
}
