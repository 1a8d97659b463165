// Package pgtest starts real PostgreSQL servers for tests.
//
//	s := pgtest.Start(t, pgtest.Options{})
//	db := open(t, s.NewSchema(t)) // an empty schema of its own
//	s.Kill()
//	s.Restart()
//
// A server listens on a free port of 127.0.0.1. It stops when its test ends, or when the process of the test dies. If
// the test fails, its output has the last lines of the server's log. If the server cannot start, the test fails; it is
// never skipped. PostgreSQL refuses to run as root, so root starts it as the user postgres of Debian's package.
package pgtest
