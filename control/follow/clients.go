package follow

import (
	"slices"

	"github.com/headgate/headgate/rules"
)

// clients are a registry whose changes can be taken back.
type clients struct {
	registry *rules.Registry
	undo     []func() error // newest last; nil if nobody would
	undoing  bool
}

// put registers a client, in place of the one with the same id if there is one.
func (c *clients) put(made rules.Client) error {
	var old *rules.Client
	if c.undoing {
		old, _ = c.registry.Get(made.ID)
	}
	if err := c.registry.Put(made); err != nil {
		return err
	}
	if c.undoing {
		c.undo = append(c.undo, func() error {
			if old == nil {
				c.registry.Remove(made.ID)
				return nil
			}
			return c.registry.Put(asGiven(old))
		})
	}
	return nil
}

// remove forgets a client, if there is one of that id.
func (c *clients) remove(id string) {
	old, ok := c.registry.Remove(id)
	if ok && c.undoing {
		c.undo = append(c.undo, func() error { return c.registry.Put(asGiven(&old)) })
	}
}

// begin makes what follows possible to take back, and keep ends that.
func (c *clients) begin() { c.undo, c.undoing = nil, true }
func (c *clients) keep()  { c.undo, c.undoing = nil, false }

// back takes back what was changed since begin.
func (c *clients) back() error {
	undo := c.undo
	c.keep()
	for i := len(undo) - 1; i >= 0; i-- {
		if err := undo[i](); err != nil {
			return err
		}
	}
	return nil
}

// asGiven returns a client of a registry as it could have been registered: without the names that limits have got there,
// which begin with a digit as no name does that anybody may give.
func asGiven(c *rules.Client) rules.Client {
	made := *c
	made.Limits = unnamed(c.Limits)
	made.Rules = slices.Clone(c.Rules)
	for i := range made.Rules {
		made.Rules[i].Limits = unnamed(made.Rules[i].Limits)
	}
	return made
}

func unnamed(limits []rules.Limit) []rules.Limit {
	made := slices.Clone(limits)
	for i := range made {
		if name := made[i].Name; name != "" && name[0] >= '0' && name[0] <= '9' {
			made[i].Name = ""
		}
	}
	return made
}
