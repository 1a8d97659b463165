package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// Info returns the fields of a section of INFO.
func (s *Server) Info(section string) map[string]string {
	s.t.Helper()
	fields, err := s.info(section)
	if err != nil {
		s.t.Fatal(err)
	}
	return fields
}

func (s *Server) info(section string) (map[string]string, error) {
	reply, err := s.Do("INFO", section)
	if err != nil {
		return nil, err
	}
	return fieldsOf(reply)
}

// fieldsOf parses lines of NAME:VALUE.
func fieldsOf(reply any) (map[string]string, error) {
	text, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("got %v, want a text", reply)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			fields[name] = value
		}
	}
	return fields, nil
}

// CommandStats returns the number of calls of each command since the start or ResetStats, by its name in lower case,
// such as "evalsha" or "config|get". Calls that were refused before they ran do not count. Calls of this package
// itself count, too: auth, ping, info and those of Do.
func (s *Server) CommandStats() map[string]int64 {
	s.t.Helper()
	calls := make(map[string]int64)
	for name, value := range s.Info("commandstats") {
		n, err := commandCalls(value)
		if err != nil {
			s.t.Fatalf("redistest: INFO commandstats of %s: %s: %v", s, name, err)
		}
		calls[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return calls
}

// commandCalls parses calls=21,usec=175,….
func commandCalls(value string) (int64, error) {
	first, _, _ := strings.Cut(value, ",")
	n, ok := strings.CutPrefix(first, "calls=")
	if !ok {
		return 0, fmt.Errorf("got %q, want calls=N first", value)
	}
	return strconv.ParseInt(n, 10, 64)
}

// ResetStats sets CommandStats back to zero.
func (s *Server) ResetStats() {
	s.t.Helper()
	s.must("CONFIG", "RESETSTAT")
}

// FlushScripts removes all scripts from the server, so that EVALSHA fails until they are loaded again.
func (s *Server) FlushScripts() {
	s.t.Helper()
	s.must("SCRIPT", "FLUSH")
}

// MemoryUsage returns the size of a key and its value in bytes, or 0 if there is no such key.
func (s *Server) MemoryUsage(key string) int64 {
	s.t.Helper()
	n, _ := s.must("MEMORY", "USAGE", key, "SAMPLES", "0").(int64)
	return n
}

// FillMemory writes keys that begin with redistest:junk until the server exceeds its MaxMemory and refuses writes or
// evicts keys. It writes a little more than that, so that the server stays full when connections are closed, which take
// memory, too. In a cluster, it uses keys in the slots of the server.
func (s *Server) FillMemory() {
	s.t.Helper()
	if s.o.MaxMemory == 0 {
		s.t.Fatalf("redistest: %s has no Options.MaxMemory to fill", s)
	}
	const more = 256 << 10 // more memory than a few connections take
	s.must("CONFIG", "SET", "maxmemory", strconv.FormatInt(s.o.MaxMemory+more, 10))
	j := junk{server: s}
	for _, size := range []int64{max(1024, s.o.MaxMemory/64), 1024} {
		if err := j.fill(strings.Repeat("x", int(size))); err != nil {
			s.t.Fatal(err)
		}
	}
	s.must("CONFIG", "SET", "maxmemory", strconv.FormatInt(s.o.MaxMemory, 10))
}

// junk fills a server's memory.
type junk struct {
	server *Server
	keys   int
	tag    int // the hash tag of the keys, which determines their slot
}

// fill writes values until the server is full.
func (j *junk) fill(value string) error {
	before, err := j.evicted()
	for err == nil {
		j.keys++
		_, err = j.server.Do("SET", fmt.Sprintf("redistest:junk:{%d}:%d", j.tag, j.keys), value)
		switch {
		case refused(err, "OOM"):
			return nil
		case refused(err, "MOVED"):
			j.tag++
			err = nil
		case err == nil:
			var now string
			if now, err = j.evicted(); now != before {
				return err
			}
		}
	}
	return err
}

// evicted returns how many keys the server has evicted so far.
func (j *junk) evicted() (string, error) {
	fields, err := j.server.info("stats")
	return fields["evicted_keys"], err
}
