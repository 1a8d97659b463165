package traffic

import "slices"

// HourClients returns the clients of an hour that nodes reported to this process. The caller stores them.
func (h *History) HourClients(hour int64) []ClientCount {
	h.mu.Lock()
	defer h.mu.Unlock()
	sums := h.byHour[hour]
	sums.trim(hourClients)
	return sums.sorted(true)
}

// LoadClients sets the stored clients of an hour. The origin identifies the process that stored them.
func (h *History) LoadClients(hour int64, origin string, list []ClientCount) {
	sums := clientSums{}
	for i := range list {
		sums.add(&list[i])
	}
	sums.trim(hourClients)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stored[storedHour{hour, origin}] = sums
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
	for _, sums := range h.stored {
		erase(sums)
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
