// Package service is the part "service" of the benchmark: the protocols of the decision service, each compared with the
// fastest way to implement the protocol.
package service
