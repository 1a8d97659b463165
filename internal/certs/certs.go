package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/secretfile"
)

// Files are a certificate and its key, in PEM. Certificates of those who issued it follow it in its file.
type Files struct{ CertFile, KeyFile string }

// A sum tells whether a file has changed.
type sum = [sha256.Size]byte

// Load reads the pair.
func (f Files) Load() (*tls.Certificate, error) {
	pair, _, err := f.load()
	return pair, err
}

func (f Files) load() (*tls.Certificate, sum, error) {
	cert, err := os.ReadFile(f.CertFile)
	if err != nil {
		return nil, sum{}, fmt.Errorf("read certificate: %w", err)
	}
	key, err := secretfile.Read(f.KeyFile)
	if err != nil {
		return nil, sum{}, fmt.Errorf("read key: %w", err)
	}
	of := sha256.Sum256(bytes.Join([][]byte{cert, key}, []byte{0}))
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, of, fmt.Errorf("certificate %s with key %s: %w", f.CertFile, f.KeyFile, err)
	}
	return &pair, of, nil
}

// loadAuthorities reads the certificates of those who vouch for others.
func loadAuthorities(file string) (*x509.CertPool, sum, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, sum{}, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, sum{}, fmt.Errorf("authorities %s: no certificate in PEM", file)
	}
	return pool, sha256.Sum256(text), nil
}

// A Set is the certificates of a listener that are in use. It is safe for concurrent use.
type Set struct {
	files       []Files
	authorities string // a file, or ""
	inUse       atomic.Pointer[inUse]
	failed      atomic.Int64
	loaded      atomic.Int64

	mu   sync.Mutex // held by who reloads
	sums []sum
	bad  string // what the log has heard already
}

type inUse struct {
	pairs       []*tls.Certificate
	authorities *x509.CertPool // nil if there are none
}

// Load reads the pairs, and the certificates of those who vouch for clients if authorities names a file.
func Load(files []Files, authorities string) (*Set, error) {
	if len(files) == 0 {
		return nil, errors.New("no certificate")
	}
	s := &Set{files: files, authorities: authorities, sums: make([]sum, len(files)+1)}
	if _, err := s.reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// reload reads the files and uses them if they are all good and one has changed.
func (s *Set) reload() (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, sums := inUse{pairs: make([]*tls.Certificate, len(s.files))}, make([]sum, len(s.sums))
	for i, files := range s.files {
		var bad error
		if now.pairs[i], sums[i], bad = files.load(); bad != nil {
			err = errors.Join(err, bad)
		}
	}
	if s.authorities != "" {
		var bad error
		if now.authorities, sums[len(s.files)], bad = loadAuthorities(s.authorities); bad != nil {
			err = errors.Join(err, bad)
		}
	}
	if err != nil {
		s.failed.Add(1)
		return false, err
	}
	for i := range sums {
		changed = changed || sums[i] != s.sums[i]
	}
	if changed {
		s.sums = sums
		s.inUse.Store(&now)
		s.loaded.Add(1)
	}
	return changed, nil
}

// Get is tls.Config's GetCertificate: the first certificate that is good for the name that the client asks for, or the first
// of all.
func (s *Set) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	pairs := s.inUse.Load().pairs
	for _, pair := range pairs {
		if hello.SupportsCertificate(pair) == nil {
			return pair, nil
		}
	}
	return pairs[0], nil
}

// Authorities returns those who vouch for clients, nil if nobody does.
func (s *Set) Authorities() *x509.CertPool { return s.inUse.Load().authorities }

// Config returns a configuration for a server that goes by the set, also when it changes. If there are authorities, clients
// must have a certificate of theirs.
func (s *Set) Config(minVersion uint16) *tls.Config {
	c := &tls.Config{MinVersion: max(minVersion, tls.VersionTLS12), GetCertificate: s.Get}
	if s.authorities == "" {
		return c
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = s.Authorities()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.Clone()
		now.GetConfigForClient = nil
		now.ClientCAs = s.Authorities()
		// One who was let in by authorities that are no more must not come back without showing his certificate again.
		now.SessionTicketsDisabled = true
		return now, nil
	}
	return c
}

// Each calls f for each certificate in use with the file that it is from.
func (s *Set) Each(f func(file string, c *tls.Certificate)) {
	for i, pair := range s.inUse.Load().pairs {
		f(s.files[i].CertFile, pair)
	}
}

// Loaded returns how often new files were taken into use, with those of the beginning.
func (s *Set) Loaded() int64 { return s.loaded.Load() }

// Failed returns how often they could not be.
func (s *Set) Failed() int64 { return s.failed.Load() }

// Reload looks at the files, uses those that have changed, and tells the log.
func (s *Set) Reload(log *slog.Logger) error {
	changed, err := s.reload()
	switch news := s.news(err); {
	case err != nil && news:
		log.Error("certificates not loaded, the old ones stay in use", "err", err)
	case changed:
		log.Info("certificates loaded", "first", s.files[0].CertFile)
	case news:
		log.Info("certificate files are good again and those in use", "first", s.files[0].CertFile)
	}
	return err
}

// news tells whether an error is another than the last, so that the log is not filled with one.
func (s *Set) news(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	is := text != s.bad
	s.bad = text
	return is
}

// Watch looks at the files again and again, until ctx ends.
func (s *Set) Watch(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = s.Reload(log) // it has told the log
		}
	}
}
