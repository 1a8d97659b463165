package conns

import "sync/atomic"

// A Share is what one listener may use of the process's file descriptors. The zero value is any number.
type Share struct {
	// Reserved are for this listener alone.
	Reserved int
	// Shared are those that all listeners share, nil if there is no bound.
	Shared *Budget
}

// A Budget has the file descriptors that listeners share. It is safe for concurrent use.
type Budget struct {
	total int
	free  atomic.Int64
}

// NewBudget returns a Budget of so many descriptors, without those that are reserved for a listener.
func NewBudget(shared int) *Budget {
	b := &Budget{total: max(shared, 0)}
	b.free.Store(int64(b.total))
	return b
}

// Total returns how many descriptors the Budget has.
func (b *Budget) Total() int { return b.total }

// take takes a descriptor for this listener, and reports whether there was one. c.mu is held.
func (c *Conns) take() bool {
	of := c.options.Descriptors
	if of.Shared != nil && c.used >= of.Reserved && of.Shared.free.Add(-1) < 0 {
		of.Shared.free.Add(1)
		return false
	}
	c.used++
	return true
}

// give returns one. c.mu is held.
func (c *Conns) give() {
	c.used--
	if of := c.options.Descriptors; of.Shared != nil && c.used >= of.Reserved {
		of.Shared.free.Add(1)
	}
}

// TakeDescriptor takes a descriptor for something else than a connection that was accepted, such as the other end of one
// that was upgraded. It reports whether there was one; GiveDescriptor returns it.
func (c *Conns) TakeDescriptor() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take()
}

// GiveDescriptor returns a descriptor of TakeDescriptor.
func (c *Conns) GiveDescriptor() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give()
}
