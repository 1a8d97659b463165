// Package redistest starts real Redis servers for tests: a single server, a primary with replicas and sentinels, or a
// cluster. Tests can kill and pause the servers, and cut their connections.
//
//	s := redistest.Standalone(t, redistest.Options{Password: "secret"})
//	store := open(t, s.URL())
//	s.Kill()
//
// Servers listen on 127.0.0.1. They are killed at the end of the test, or when the process of the test ends. If the
// test fails, it logs the last lines of their logs. If there is no server program, the test fails; it is never
// skipped. Valkey is used if there is no Redis.
//
// Every server has an additional user for this package. So [Server.Do] works even if the Options of a test forbid
// commands or require TLS. A killed or paused server does not respond.
//
// Methods fail the test if they fail, so they must be called in the goroutine of the test. Do, Kill, Pause and
// Resume may be called from any goroutine.
package redistest
