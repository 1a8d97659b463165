package downstream

import (
	"net/http"
	"time"
)

// A dateText is the value of the Date header for one second.
type dateText struct {
	begin time.Duration // begin of the second, by Server.now
	text  string
}

// date returns the value of the Date header. Formatting it once a second instead of for each response saves about a
// tenth of the instructions of a small response.
func (s *Server) date() string {
	now := s.now()
	last := s.lastDate.Load()
	if last != nil && now >= last.begin && now-last.begin < time.Second {
		return last.text
	}
	at := time.Now()
	current := &dateText{begin: now - time.Duration(at.Nanosecond()), text: at.UTC().Format(http.TimeFormat)}
	s.lastDate.Store(current)
	return current.text
}
