package traffic

import (
	"maps"
	"slices"
	"time"
)

// HourClients and MinuteClients return the clients of an hour or a minute that nodes reported to this process. The
// caller stores them. They leave out the minute in progress, because nodes report it again to the next process if this
// one stops. Only the node with the id ending, if not empty, stops with this process.
func (h *History) HourClients(hour int64, now time.Time, ending string) []ClientCount {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byHour[hour].trim(hourClients)
	return h.clientsToStore(h.byHour[hour], hour, hour+3600, now, ending).sorted(true)
}

// MinuteClients is described at HourClients.
func (h *History) MinuteClients(minute int64, now time.Time, ending string) []ClientCount {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clientsToStore(h.byMin[minute], minute, minute+60, now, ending).sorted(true)
}

func (h *History) clientsToStore(merged clientSums, from, to int64, now time.Time, ending string) clientSums {
	sums := clientSums{}
	for _, c := range merged {
		sums.add(c)
	}
	for id, n := range h.nodes {
		complete := n.minute+60+int64(ClientLag/time.Second) <= now.Unix() || id == ending && ending != ""
		if n.minute < from || n.minute >= to || !complete {
			continue
		}
		for i := range n.clients {
			sums.add(&n.clients[i])
		}
	}
	keep := hourClients
	if to-from == 60 {
		keep = minuteClients
	}
	sums.trim(keep)
	return sums
}

// ChangedMinutes returns the minutes whose clients were changed since the last call, so that they must be stored again.
func (h *History) ChangedMinutes() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Sorted(maps.Keys(h.changed))
	clear(h.changed)
	return list
}

// LoadHour and LoadMinute set the stored clients of an hour or a minute. The origin identifies the process that stored
// them.
func (h *History) LoadHour(hour int64, origin string, list []ClientCount) {
	h.loadClients(h.storedHour, storedTime{hour, origin}, list, hourClients)
}

// LoadMinute is described at LoadHour.
func (h *History) LoadMinute(minute int64, origin string, list []ClientCount) {
	h.loadClients(h.storedMin, storedTime{minute, origin}, list, minuteClients)
}

func (h *History) loadClients(to map[storedTime]clientSums, at storedTime, list []ClientCount, keep int) {
	sums := clientSums{}
	for i := range list {
		sums.add(&list[i])
	}
	sums.trim(keep)
	h.mu.Lock()
	defer h.mu.Unlock()
	to[at] = sums
}

// Erase removes clients. It returns the number of removed entries.
func (h *History) Erase(clients ...ErasedClient) (removed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	erase := func(sums clientSums) {
		for key := range sums {
			if h.options.Namer.IsErased(key.client, clients) {
				delete(sums, key)
				removed++
			}
		}
	}
	for _, sums := range h.byMin {
		erase(sums)
	}
	for _, sums := range h.byHour {
		erase(sums)
	}
	for _, stored := range []map[storedTime]clientSums{h.storedHour, h.storedMin} {
		for _, sums := range stored {
			erase(sums)
		}
	}
	for _, n := range h.nodes {
		before := len(n.clients)
		n.clients = slices.DeleteFunc(n.clients, func(c ClientCount) bool {
			return h.options.Namer.IsErased(c.Client, clients)
		})
		removed += before - len(n.clients)
	}
	return removed
}
