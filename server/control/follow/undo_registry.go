package follow

import (
	"slices"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/registry"
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
			return c.registry.Put(unregistered(old))
		})
	}
	return nil
}

// remove removes the client with this id, if any.
func (c *undoRegistry) remove(id string) {
	old, ok := c.registry.Remove(id)
	if ok && c.undoing {
		c.undo = append(c.undo, func() error { return c.registry.Put(unregistered(&old)) })
	}
}

// begin starts to record changes for back; keep stops it.
func (c *undoRegistry) begin()  { c.undo, c.undoing = nil, true }
func (c *undoRegistry) commit() { c.undo, c.undoing = nil, false }

// rollback undoes the changes since begin.
func (c *undoRegistry) rollback() error {
	undo := c.undo
	c.commit()
	for i := len(undo) - 1; i >= 0; i-- {
		if err := undo[i](); err != nil {
			return err
		}
	}
	return nil
}

// unregistered returns a registered client as it was before registration: without the generated limit names, which
// begin with a digit, unlike given names.
func unregistered(c *rules.Client) rules.Client {
	client := *c
	client.Limits = withoutGeneratedNames(c.Limits)
	client.Rules = slices.Clone(c.Rules)
	for i := range client.Rules {
		client.Rules[i].Limits = withoutGeneratedNames(client.Rules[i].Limits)
	}
	return client
}

func withoutGeneratedNames(limits []rules.Limit) []rules.Limit {
	named := slices.Clone(limits)
	for i := range named {
		if name := named[i].Name; name != "" && name[0] >= '0' && name[0] <= '9' {
			named[i].Name = ""
		}
	}
	return named
}
