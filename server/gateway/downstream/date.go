package downstream

import (
	"net/http"
	"sync/atomic"
	"time"
)

// A dateText is the value of the Date header for one second.
type dateText struct {
	second time.Duration // its beginning, by the server's clock
	text   string
}

type dates struct{ last atomic.Pointer[dateText] }

// date returns the value of the Date header, which is formatted once a second.
func (s *Server) date() string {
	now := s.now()
	last := s.dates.last.Load()
	if last != nil && now >= last.second && now-last.second < time.Second {
		return last.text
	}
	at := time.Now()
	made := &dateText{second: now - time.Duration(at.Nanosecond()), text: at.UTC().Format(http.TimeFormat)}
	s.dates.last.Store(made)
	return made.text
}
