package traffic

import "encoding/binary"

// A minuteLog has the counts of a rule by the minute. Each minute takes only a few bytes.
type minuteLog struct {
	hours map[int64][]byte // by the Unix time of the hour
	bytes int
	sum   uint64 // all requests, to compare the activity of rules
}

// The approximate memory overhead.
const (
	chunkBytes   = 72  // of an hour, without its minutes
	minutesBytes = 320 // of a rule, without its hours
)

func (l *minuteLog) add(minute int64, c *Counts) {
	hour := minute - minute%3600
	if l.hours == nil {
		l.hours = map[int64][]byte{}
		l.bytes = minutesBytes
	}
	chunk, ok := l.hours[hour]
	if !ok {
		l.bytes += chunkBytes
	}
	before := cap(chunk)
	fields := c.fields()
	fields[5] -= min(fields[5], fields[0]) // store Cost as the difference to Requests, which is mostly 0
	mask := byte(0)
	for i, n := range fields {
		if n > 0 {
			mask |= 1 << i
		}
	}
	chunk = append(chunk, byte((minute-hour)/60), mask)
	for _, n := range fields {
		if n > 0 {
			chunk = binary.AppendUvarint(chunk, n)
		}
	}
	l.hours[hour] = chunk
	l.bytes += cap(chunk) - before
	l.sum += c.Requests
}

// each calls f for each minute from a time on.
func (l *minuteLog) each(from int64, f func(minute int64, c *Counts)) {
	for hour, chunk := range l.hours {
		if hour+3600 <= from {
			continue
		}
		for len(chunk) >= 2 {
			minute, mask := hour+60*int64(chunk[0]), chunk[1]
			chunk = chunk[2:]
			var c Counts
			for i, p := range c.pointers() {
				if mask&(1<<i) != 0 {
					n, size := binary.Uvarint(chunk)
					if size <= 0 {
						return
					}
					*p, chunk = n, chunk[size:]
				}
			}
			c.Cost += c.Requests
			if minute >= from {
				f(minute, &c)
			}
		}
	}
}

// forget drops the hours that ended before a time.
func (l *minuteLog) forget(before int64) {
	for hour, chunk := range l.hours {
		if hour+3600 <= before {
			l.bytes -= cap(chunk) + chunkBytes
			delete(l.hours, hour)
		}
	}
}
