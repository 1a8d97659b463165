package traffic

import (
	"encoding/binary"
	"time"
)

// A Sample has requests of clients under a rule. All nodes sample the same clients.
type Sample struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// OneIn is n if one of n clients is in the sample, in addition to the held clients.
	OneIn   int64           `json:"one_in"`
	Clients []SampledClient `json:"clients"`
}

// A SampledClient has the requests of a client.
type SampledClient struct {
	Key    uint64    `json:"key,string"`
	Client RawClient `json:"client"`
	// Held means that the client sends many requests and is in the sample for this reason.
	Held bool `json:"held,omitempty"`
	// Seconds means that each element of Requests is a second and its number of requests. Otherwise, each element is one
	// request.
	Seconds bool `json:"seconds,omitempty"`
	// Requests has two varints for each element. For a request: the time since the previous request in µs, and the cost.
	// For a second: the time since the previous second in seconds, and the number of requests. The first time is the time
	// since From.
	Requests []byte `json:"requests"`
}

// maxSampleRequests is the maximum size of all Requests of a Sample, in bytes. It keeps the response of a node below
// the maximum size of such responses.
const maxSampleRequests = 2 << 20

// Sample returns the sampled requests under a rule from one time to another, nil if there are none.
func (r *Recorder) Sample(rule string, from, to time.Time) *Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sampler == nil {
		return nil
	}
	stats, found := r.sampler.find(rule)
	if found == nil {
		return nil
	}
	from = from.Truncate(time.Second)
	var chunks []*sampleChunk
	mask := stats.sampling.mask.Load()
	for _, k := range found.chunks {
		if k.start+chunkSeconds > from.Unix() && k.start <= to.Unix() {
			chunks = append(chunks, k)
			mask = max(mask, k.mask)
		}
	}
	if len(chunks) == 0 {
		return nil
	}
	if earliest := time.Unix(chunks[0].start, 0); from.Before(earliest) {
		from = earliest
	}
	for {
		sample, ok := r.sampleOf(stats, chunks, mask, from, to)
		if ok || mask >= 1<<maxShift {
			return sample
		}
		mask = mask<<1 | 1
	}
}

// sampleOf returns a sample of one client in mask+1. ok is false if it is too large.
func (r *Recorder) sampleOf(
	stats *ruleStats, chunks []*sampleChunk, mask uint64, from, to time.Time,
) (_ *Sample, ok bool) {
	sample := &Sample{From: from, To: to, OneIn: int64(mask) + 1}
	size := 0
	for _, key := range sortedKeys(chunks) {
		c := SampledClient{Key: key}
		var values *clientValues
		held, overflow := false, false
		for _, k := range chunks {
			if at := k.clients[key]; at != nil {
				values, held, overflow = &at.clientValues, held || at.held, overflow || at.overflow
			}
		}
		if key&mask != 0 && !held {
			continue
		}
		c.Held, c.Seconds = held, held && (key&mask != 0 || overflow)
		if c.Seconds {
			c.Requests = secondsOf(chunks, key, from, to)
		} else {
			c.Requests = timesOf(chunks, key, from, to)
		}
		if len(c.Requests) == 0 {
			continue
		}
		client := values.client(stats)
		c.Client = r.options.Namer.name(&client)
		sample.Clients = append(sample.Clients, c)
		size += len(c.Requests) + len(c.Client)
		if size > maxSampleRequests {
			return sample, false
		}
	}
	return sample, true
}

// timesOf returns SampledClient.Requests of a client whose element is a request.
func timesOf(chunks []*sampleChunk, key uint64, from, to time.Time) []byte {
	var list []byte
	last := from.UnixMicro()
	for _, k := range chunks {
		c := k.clients[key]
		if c == nil {
			continue
		}
		at, data := k.start*1e6, c.times
		for len(data) > 0 {
			delta, n := binary.Uvarint(data)
			data = data[n:]
			cost := uint64(1)
			if delta&1 != 0 {
				cost, n = binary.Uvarint(data)
				data = data[n:]
			}
			at += int64(delta >> 1)
			if at < last || at > to.UnixMicro() {
				continue
			}
			list = binary.AppendUvarint(list, uint64(at-last))
			list = binary.AppendUvarint(list, cost)
			last = at
		}
	}
	return list
}

// secondsOf returns SampledClient.Requests of a held client whose element is a second.
func secondsOf(chunks []*sampleChunk, key uint64, from, to time.Time) []byte {
	var list []byte
	last := from.Unix()
	for _, k := range chunks {
		c := k.clients[key]
		if c == nil {
			continue
		}
		at, data := k.start, c.counts
		for len(data) > 0 {
			delta, n := binary.Uvarint(data)
			data = data[n:]
			count, n := binary.Uvarint(data)
			data = data[n:]
			at += int64(delta)
			if at < last || at > to.Unix() {
				continue
			}
			list = binary.AppendUvarint(list, uint64(at-last))
			list = binary.AppendUvarint(list, count)
			last = at
		}
	}
	return list
}

// Each calls f with each request or, if c.Seconds is true, with each second and its number of requests.
func (c *SampledClient) Each(from time.Time, f func(at time.Time, count, cost uint32)) {
	at, data := from, c.Requests
	unit := time.Microsecond
	if c.Seconds {
		unit = time.Second
	}
	for len(data) > 0 {
		delta, n := binary.Uvarint(data)
		if n <= 0 {
			return
		}
		data = data[n:]
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return
		}
		data = data[n:]
		at = at.Add(time.Duration(delta) * unit)
		if c.Seconds {
			f(at, uint32(value), 1)
		} else {
			f(at, 1, uint32(value))
		}
	}
}
