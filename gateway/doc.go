// Package gateway is the reverse proxy.
package gateway
