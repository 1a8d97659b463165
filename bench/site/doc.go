// Package site is the setup in which servers are measured: a core for the measured server, another for the load and the
// upstream, the load generators, and the processes themselves. It needs Linux.
package site
