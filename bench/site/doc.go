// Package site runs the servers that are measured. It gives one core to the measured server, and another to the load
// and the upstream. It also has the load generators, and starts and stops processes. It needs Linux.
package site
