// Package pgtest starts real PostgreSQL servers for tests.
//
//	s := pgtest.Start(t, pgtest.Options{})
//	db := open(t, s.URL(t)) // an empty schema of its own
//	s.Kill()
//	s.Restart()
//
// A server listens on a free port of 127.0.0.1 and ends with its test, or with the test's process should that die first. If
// the test fails, it shows the end of the server's log. A test that cannot have its server fails; it is never skipped.
// PostgreSQL does not run as root, so as root it is run as the user postgres, which Debian's package makes.
package pgtest
