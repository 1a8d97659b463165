package fleet

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxSilent is how many hosts that have fallen silent are remembered.
const maxSilent = 1024

// A roster knows the other hosts by what the mesh says of them.
type roster struct {
	clock  Clock
	forget time.Duration

	mu     sync.Mutex
	hosts  map[string]bool          // whether it is live
	silent map[string]time.Duration // since when it is not

	live  atomic.Pointer[[]string] // names, sorted
	known atomic.Int64
}

var _ Members = (*roster)(nil)

func newRoster(clock Clock, forget time.Duration) *roster {
	r := &roster{clock: clock, forget: forget, hosts: map[string]bool{}, silent: map[string]time.Duration{}}
	r.count()
	return r
}

// Live is how many hosts are heard of, this one included.
func (r *roster) Live() int { return len(*r.live.Load()) + 1 }

// Known is how many there are, those included that have fallen silent without a farewell.
func (r *roster) Known() int { return int(r.known.Load()) + 1 }

// others returns the names of those who live. They are not to be changed.
func (r *roster) others() []string { return *r.live.Load() }

// alive notes that a host is there, and tells whether that is new.
func (r *roster) alive(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[name] {
		return false
	}
	r.hosts[name] = true
	delete(r.silent, name)
	r.count()
	return true
}

// failed notes that a host is not heard any more. One that has said farewell is not missed. Gone is one that is no longer
// remembered, as there are too many, or nothing.
func (r *roster) failed(name string) (gone string, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.hosts[name] {
		return "", false
	}
	if len(r.silent) >= maxSilent {
		gone = r.longestSilent()
		r.drop(gone)
	}
	r.hosts[name] = false
	r.silent[name] = r.clock.Now()
	r.count()
	return gone, true
}

// left notes a farewell.
func (r *roster) left(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.hosts[name]; !known {
		return false
	}
	r.drop(name)
	r.count()
	return true
}

// tidy forgets who has been silent for too long, and returns their names.
func (r *roster) tidy() (gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	for name, since := range r.silent {
		if now-since >= r.forget {
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		r.drop(name)
	}
	if gone != nil {
		r.count()
	}
	return gone
}

// missing returns those who have fallen silent.
func (r *roster) missing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.silent))
	for name := range r.silent {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *roster) drop(name string) {
	delete(r.hosts, name)
	delete(r.silent, name)
}

func (r *roster) longestSilent() string {
	oldest, since := "", time.Duration(0)
	for name, at := range r.silent {
		if oldest == "" || at < since {
			oldest, since = name, at
		}
	}
	return oldest
}

func (r *roster) count() {
	live := make([]string, 0, len(r.hosts))
	for name, lives := range r.hosts {
		if lives {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	r.live.Store(&live)
	r.known.Store(int64(len(r.hosts)))
}
