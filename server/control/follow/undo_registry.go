package follow

import (
	"slices"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/registry"
	"github.com/headgate/headgate/server/control"
)

// An undoRegistry is a registry of clients whose changes since begin can be undone.
type undoRegistry struct {
	registry  *registry.Registry
	undo      []func() error // undo the changes since begin, newest last
	recording bool           // between begin and commit or rollback
}

// put registers a client, or replaces the client with the same ID.
func (c *undoRegistry) put(client rules.Client) error {
	var old *rules.Client
	if c.recording {
		old, _ = c.registry.Get(client.ID)
	}
	if err := c.registry.Put(client); err != nil {
		return err
	}
	if c.recording {
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

// remove removes the client with this ID, if any.
func (c *undoRegistry) remove(id string) {
	old, ok := c.registry.Remove(id)
	if ok && c.recording {
		c.undo = append(c.undo, func() error { return c.registry.Put(control.WithoutDefaultNames(old)) })
	}
}

// begin starts to record changes for rollback. commit forgets them and stops recording.
func (c *undoRegistry) begin()  { c.undo, c.recording = nil, true }
func (c *undoRegistry) commit() { c.undo, c.recording = nil, false }

// rollback undoes the changes since begin.
func (c *undoRegistry) rollback() error {
	undo := c.undo
	c.commit()
	for _, undoChange := range slices.Backward(undo) {
		if err := undoChange(); err != nil {
			return err
		}
	}
	return nil
}
