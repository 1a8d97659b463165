package follow

import (
	"slices"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/registry"
	"github.com/headgate/headgate/server/control"
)

// undoRegistry is a registry with an undo log.
type undoRegistry struct {
	registry *registry.Registry
	undo     []func() error // newest last; nil outside a transaction
	undoing  bool
}

// put registers a client. It replaces the one with the same id.
func (c *undoRegistry) put(client rules.Client) error {
	var old *rules.Client
	if c.undoing {
		old, _ = c.registry.Get(client.ID)
	}
	if err := c.registry.Put(client); err != nil {
		return err
	}
	if c.undoing {
		c.undo = append(c.undo, func() error {
			if old == nil {
				c.registry.Remove(client.ID)
				return nil
			}
			return c.registry.Put(control.WithoutDefaultNames(*old))
		})
	}
	return nil
}

// remove removes the client with this id, if any.
func (c *undoRegistry) remove(id string) {
	old, ok := c.registry.Remove(id)
	if ok && c.undoing {
		c.undo = append(c.undo, func() error { return c.registry.Put(control.WithoutDefaultNames(old)) })
	}
}

// begin starts to record changes for rollback, and commit stops it.
func (c *undoRegistry) begin()  { c.undo, c.undoing = nil, true }
func (c *undoRegistry) commit() { c.undo, c.undoing = nil, false }

// rollback undoes the changes since begin.
func (c *undoRegistry) rollback() error {
	undo := c.undo
	c.commit()
	for _, undoOne := range slices.Backward(undo) {
		if err := undoOne(); err != nil {
			return err
		}
	}
	return nil
}
