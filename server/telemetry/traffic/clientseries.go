package traffic

import "time"

// ClientSeries are the counts of a client over time. The counts of a step are 0 if the client was not among the clients
// with the most requests or denials in that step.
type ClientSeries struct {
	Step     string    `json:"step"`
	Start    time.Time `json:"start"`
	Requests []uint64  `json:"requests"`
	Denied   []uint64  `json:"denied"`
}

// seriesSums add up the series of clients. The methods of a nil *seriesSums do nothing.
type seriesSums struct {
	start, step int64 // seconds
	count       int
	byClient    map[clientRule]*ClientSeries
}

// newSeriesSums returns the sums for a query, nil if it does not ask for series. Windows up to an hour have a step of a
// minute, longer ones of an hour.
func newSeriesSums(q *ClientsQuery, now time.Time) *seriesSums {
	if !q.Series {
		return nil
	}
	step := int64(60)
	if q.Window > keptMinutes*time.Minute {
		step = 3600
	}
	from := now.Add(-q.Window).Unix()
	start := from - from%step
	return &seriesSums{
		start: start, step: step, count: int((now.Unix()-start)/step) + 1, byClient: map[clientRule]*ClientSeries{},
	}
}

func (s *seriesSums) add(key clientRule, at int64, c *ClientCount) {
	if s == nil {
		return
	}
	i := (at - s.start) / s.step
	if at < s.start || i >= int64(s.count) {
		return
	}
	sum := s.byClient[key]
	if sum == nil {
		sum = &ClientSeries{
			Step: Short(time.Duration(s.step) * time.Second), Start: time.Unix(s.start, 0).UTC(),
			Requests: make([]uint64, s.count), Denied: make([]uint64, s.count),
		}
		s.byClient[key] = sum
	}
	sum.Requests[i] += c.Requests
	sum.Denied[i] += c.Denied
}

func (s *seriesSums) of(key clientRule) *ClientSeries {
	if s == nil {
		return nil
	}
	return s.byClient[key]
}
