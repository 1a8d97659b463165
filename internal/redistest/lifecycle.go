package redistest

import (
	"errors"
	"time"

	"github.com/headgate/headgate/internal/process"
)

// Kill ends the server immediately with SIGKILL. It does nothing if the server is not running.
func (s *Server) Kill() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	if err := s.process.Kill(); err != nil {
		s.t.Errorf("redistest: kill %s: %v", s, err)
	}
}

// Pause stops the server with SIGSTOP. Its connections stay open, and the system accepts new ones, but there are no
// responses.
func (s *Server) Pause() {
	s.t.Helper()
	s.setPaused(true, (*process.Process).Pause)
}

// Resume continues the server after a Pause.
func (s *Server) Resume() {
	s.t.Helper()
	s.setPaused(false, (*process.Process).Resume)
}

// setPaused calls signal, which pauses or resumes the process.
func (s *Server) setPaused(paused bool, signal func(*process.Process) error) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || !s.process.Running() {
		s.t.Errorf("redistest: %s is down; only a running server can pause and resume", s)
		return
	}
	if err := signal(s.process); err != nil {
		s.t.Errorf("redistest: pause or resume %s: %v", s, err)
		return
	}
	s.paused = paused
}

// Restart kills the server if it runs, starts it again on the same port, and waits until it responds. It keeps its
// data only if Options.Persist is set.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	deadline := time.Now().Add(maxWait)
	err := s.launch()
	for errors.Is(err, errPortTaken) && time.Now().Before(deadline) {
		time.Sleep(poll) // a child that saves for a replica may outlive the server briefly
		err = s.launch()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Running reports whether the server is neither down nor paused.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil && s.process.Running() && !s.paused
}

func running(servers []*Server) []*Server {
	var list []*Server
	for _, s := range servers {
		if s.Running() {
			list = append(list, s)
		}
	}
	return list
}
