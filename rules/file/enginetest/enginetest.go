// Package enginetest creates engines for tests from rules in YAML.
package enginetest

import (
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
)

// A Store is a Limiter that a test can make unreachable.
type Store = enginetest.Store

// ErrUnreachable is the error of a Store that is unreachable.
var ErrUnreachable = enginetest.ErrUnreachable

// New returns an engine with the rules in a YAML text, and its store. The store is closed at the end of the
// test.
func New(t testing.TB, rules string, o memstore.Options) (*engine.Engine, *Store) {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.NewCompiled(t, set, o)
}
