// Package redistest starts real Redis servers for tests: one alone, a primary with replicas and sentinels, or a cluster;
// and hurts them on request.
//
//	s := redistest.Standalone(t, redistest.Options{Password: "secret"})
//	store := open(t, s.URL())
//	s.Kill()
//
// Servers listen on 127.0.0.1 and end with the test, or with the test's process should that die first. If the test fails,
// it shows the end of their logs. A test that cannot have its server fails; it is never skipped. Valkey will do where there
// is no Redis.
//
// Every server knows one more user, through whom the harness itself speaks to it. So [Server.Do] works whatever a test's
// Options forbid the others, and whatever they say about TLS. Whether it can be reached is another matter: a killed or
// paused server answers nobody.
//
// Methods fail the test if they cannot do what they say, and those that can fail belong in the test's own goroutine. Do,
// Kill, Pause and Resume may be called from any.
package redistest
