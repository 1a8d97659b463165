package downstream

import (
	"net/http"
	"time"
)

// A dateText is the value of the Date header for one second.
type dateText struct {
	start time.Duration // start of the second, by Server.now
	text  string
}

// date returns the value of the Date header. Formatting it once a second instead of for each response saves about a
// tenth of the instructions of a small response.
func (s *Server) date() string {
	now := s.now()
	last := s.lastDate.Load()
	if last != nil && now >= last.start && now-last.start < time.Second {
		return last.text
	}
	wallTime := time.Now()
	current := &dateText{start: now - time.Duration(wallTime.Nanosecond()), text: wallTime.UTC().Format(http.TimeFormat)}
	s.lastDate.Store(current)
	return current.text
}
