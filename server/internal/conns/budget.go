package conns

import "sync/atomic"

// A Share is the part of the process's file descriptors that one listener may use. The zero value has no limit.
type Share struct {
	// Reserved is the number of descriptors that only this listener may use.
	Reserved int
	// Shared has the descriptors that all listeners share; nil for no limit.
	Shared *Budget
}

// A Budget has the file descriptors that listeners share. It is safe for concurrent use.
type Budget struct {
	total int
	free  atomic.Int64
}

// NewBudget returns a Budget of shared descriptors. It does not include those that are reserved for single listeners.
func NewBudget(shared int) *Budget {
	b := &Budget{total: max(shared, 0)}
	b.free.Store(int64(b.total))
	return b
}

// Total returns how many descriptors the Budget has.
func (b *Budget) Total() int { return b.total }

// takeDescriptor takes a descriptor, and reports whether one was free. c.mu is held.
func (c *Conns) takeDescriptor() bool {
	share := c.options.Descriptors
	if share.Shared != nil && c.used >= share.Reserved && share.Shared.free.Add(-1) < 0 {
		share.Shared.free.Add(1)
		return false
	}
	c.used++
	return true
}

// giveDescriptor gives a descriptor back. c.mu is held.
func (c *Conns) giveDescriptor() {
	c.used--
	if share := c.options.Descriptors; share.Shared != nil && c.used >= share.Reserved {
		share.Shared.free.Add(1)
	}
}

// TakeDescriptor takes a descriptor for another purpose than an accepted connection, such as the upstream connection of
// an upgrade. It reports whether one was free. The caller must give it back with GiveDescriptor.
func (c *Conns) TakeDescriptor() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeDescriptor()
}

// GiveDescriptor gives back a descriptor that TakeDescriptor has taken.
func (c *Conns) GiveDescriptor() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveDescriptor()
}
