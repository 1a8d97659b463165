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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/secretfile"
)

// Files are the files of a certificate and its key, in PEM. Intermediate certificates follow the certificate in
// CertFile.
type Files struct{ CertFile, KeyFile string }

// A sum is the checksum of a file or pair of files.
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
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, sum{}, fmt.Errorf("certificate %s with key %s: %w", f.CertFile, f.KeyFile, err)
	}
	return &pair, sha256.Sum256(bytes.Join([][]byte{cert, key}, []byte{0})), nil
}

// LoadAuthorities reads the CA certificates of a file in PEM.
func LoadAuthorities(file string) (*x509.CertPool, error) {
	pool, _, err := loadAuthorities(file)
	return pool, err
}

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

// A Set has the certificates of a listener. It is safe for concurrent use.
type Set struct {
	files       []Files
	authorities string // a file, or ""
	inUse       atomic.Pointer[loadedCerts]
	failed      atomic.Int64
	loaded      atomic.Int64

	mu        sync.Mutex // held during a reload
	sums      []sum
	lastError string // the last logged error
}

type loadedCerts struct {
	pairs       []*tls.Certificate
	authorities *x509.CertPool // nil if there are none
}

// Load reads the pairs. If authorities is not empty, it is a file with the CA certificates for client certificates.
func Load(files []Files, authorities string) (*Set, error) {
	if len(files) == 0 {
		return nil, errors.New("no certificate")
	}
	s := &Set{files: files, authorities: authorities}
	if _, err := s.reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// reload reads the files. If all are valid and at least one has changed, it uses them.
func (s *Set) reload() (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loaded := loadedCerts{pairs: make([]*tls.Certificate, len(s.files))}
	sums := make([]sum, len(s.files)+1)
	errs := make([]error, len(s.files)+1)
	for i, files := range s.files {
		loaded.pairs[i], sums[i], errs[i] = files.load()
	}
	if s.authorities != "" {
		i := len(s.files)
		loaded.authorities, sums[i], errs[i] = loadAuthorities(s.authorities)
	}
	err = errors.Join(errs...)
	if err != nil {
		s.failed.Add(1)
		return false, err
	}
	if changed = !slices.Equal(sums, s.sums); changed {
		s.sums = sums
		s.inUse.Store(&loaded)
		s.loaded.Add(1)
	}
	return changed, nil
}

// Get returns the first certificate that the client supports for its server name. If there is none, it returns the
// first certificate. Get is for tls.Config.GetCertificate.
func (s *Set) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	pairs := s.inUse.Load().pairs
	for _, pair := range pairs {
		if hello.SupportsCertificate(pair) == nil {
			return pair, nil
		}
	}
	return pairs[0], nil
}

// Authorities returns the CAs for client certificates, or nil if there are none.
func (s *Set) Authorities() *x509.CertPool { return s.inUse.Load().authorities }

// Config returns a server configuration that always uses the current set. If there are authorities, clients must have
// a certificate that one of them signed.
func (s *Set) Config(minVersion uint16) *tls.Config {
	c := &tls.Config{MinVersion: max(minVersion, tls.VersionTLS12), GetCertificate: s.Get}
	if s.authorities == "" {
		return c
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = s.Authorities()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := c.Clone()
		current.GetConfigForClient = nil
		current.ClientCAs = s.Authorities()
		// Without tickets, clients must send their certificate again, so that those of a removed authority are refused.
		current.SessionTicketsDisabled = true
		return current, nil
	}
	return c
}

// Each calls f for each certificate in use, with its file.
func (s *Set) Each(f func(file string, c *tls.Certificate)) {
	for i, pair := range s.inUse.Load().pairs {
		f(s.files[i].CertFile, pair)
	}
}

// Loaded returns how often certificates were loaded, including the first time.
func (s *Set) Loaded() int64 { return s.loaded.Load() }

// Failed returns how often loading failed.
func (s *Set) Failed() int64 { return s.failed.Load() }

// Reload reads the files, uses them if they have changed, and logs the result. It logs an error only once.
func (s *Set) Reload(log *slog.Logger) error {
	changed, err := s.reload()
	switch isNew := s.isNewError(err); {
	case err != nil && isNew:
		log.Error("certificates not loaded, the old ones stay in use", "err", err)
	case changed:
		log.Info("certificates loaded", "first", s.files[0].CertFile)
	case isNew:
		log.Info("certificate files are valid again and unchanged", "first", s.files[0].CertFile)
	}
	return err
}

// isNewError reports whether an error differs from the last one. It prevents that the same error is logged repeatedly.
func (s *Set) isNewError(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	before := s.lastError
	s.lastError = text
	return text != before
}

// Watch checks the files regularly until ctx ends.
func (s *Set) Watch(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = s.Reload(log) // Reload logs the error
		}
	}
}
