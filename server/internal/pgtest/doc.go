// Package pgtest starts real PostgreSQL servers for tests.
//
//	s := pgtest.Start(t, pgtest.Options{})
//	db := open(t, s.URL(t)) // an empty schema of its own
//	s.Kill()
//	s.Restart()
//
// A server listens on a free port of 127.0.0.1 and ends with its test, or with the test's process if that dies first.
// If the test fails, the end of the server's log is shown. A test without its server fails; it is never skipped.
// PostgreSQL does not run as root, so root runs it as the user postgres of Debian's package.
package pgtest
