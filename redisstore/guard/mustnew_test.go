package guard

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limittest"
)

func TestMustNewPanicsOnInvalidOptions(t *testing.T) {
	g := MustNew(limittest.Allowing(), Options{})
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("got no panic for a deadline below zero")
		}
	}()
	MustNew(limittest.Allowing(), Options{Deadline: -time.Second})
}
