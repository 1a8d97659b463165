// Package deploytest tests the configurations in deploy/ with the real nginx, Caddy, HAProxy and a stand-in for
// Traefik.
package deploytest
