// Package redistest starts real Redis servers for tests: a single one, a primary with replicas and sentinels, or a
// cluster; and injects faults on request.
//
//	s := redistest.Standalone(t, redistest.Options{Password: "secret"})
//	store := open(t, s.URL())
//	s.Kill()
//
// Servers listen on 127.0.0.1 and end with the test, or with the test's process if that dies first. If the test fails,
// the end of their logs is shown. A test without its server fails; it is never skipped. Valkey is used if there is no
// Redis.
//
// Every server has one more user, for the harness itself. So [Server.Do] works whatever a test's Options forbid, also
// with TLS. A killed or paused server does not respond, though.
//
// Methods fail the test if they fail, so those that can fail must be called in the test's own goroutine. Do, Kill,
// Pause and Resume may be called from any.
package redistest
