package memstore_test

import (
	"errors"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// packageExample is the example of the package comment.
func packageExample(user string) error {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	perUser := headgate.MustBind(store, headgate.PerSecond(10))
	if !perUser.Allow(user) {
		return errors.New("too many requests")
	}
	return nil
}

var _ = packageExample
