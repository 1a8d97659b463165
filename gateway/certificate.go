package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultCheckFiles is how often the files of certificates are looked at.
const DefaultCheckFiles = 10 * time.Second

// TLS are the certificates of a listener. Their files are watched: when they change, new connections get the new ones. If
// the new files are bad, the old certificates stay in use, and the log says so.
type TLS struct {
	// Certificates are pairs of files. A client gets the first that is good for the name it asks for, or the first of all.
	Certificates []CertificateFiles
	// MinVersion is the oldest version of TLS that is spoken: tls.VersionTLS12 or tls.VersionTLS13. Default the former.
	MinVersion uint16
	// CheckFiles is how often the files are looked at. Default DefaultCheckFiles.
	CheckFiles time.Duration
}

// CertificateFiles is a certificate and its key, in PEM. Certificates of those who issued it follow it in its file.
type CertificateFiles struct{ CertFile, KeyFile string }

func (t *TLS) check(k *checker, field string) {
	if len(t.Certificates) == 0 {
		k.add(field+".Certificates", "", "at least one")
	}
	for i, files := range t.Certificates {
		if _, _, err := files.load(); err != nil {
			k.add(index(field+".Certificates", i), "("+err.Error()+")", "files with a certificate and its key in PEM")
		}
	}
	if v := t.MinVersion; v != 0 && v != tls.VersionTLS12 && v != tls.VersionTLS13 {
		k.add(field+".MinVersion", tls.VersionName(v), "TLS 1.2 or TLS 1.3")
	}
	between(k, field+".CheckFiles", t.CheckFiles, time.Millisecond, maxDuration)
}

// load reads the pair, and returns a sum by which a change is seen.
func (f CertificateFiles) load() (*tls.Certificate, [sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	cert, err := os.ReadFile(f.CertFile)
	if err != nil {
		return nil, sum, fmt.Errorf("read certificate: %w", err)
	}
	key, err := os.ReadFile(f.KeyFile)
	if err != nil {
		return nil, sum, fmt.Errorf("read key: %w", err)
	}
	sum = sha256.Sum256(bytes.Join([][]byte{cert, key}, []byte{0}))
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, sum, fmt.Errorf("certificate %s with key %s: %w", f.CertFile, f.KeyFile, err)
	}
	return &pair, sum, nil
}

// certificates are those of a listener that are in use.
type certificates struct {
	files  []CertificateFiles
	inUse  atomic.Pointer[[]*tls.Certificate]
	failed atomic.Int64
	loaded atomic.Int64

	mu   sync.Mutex // held by who reloads
	sums [][sha256.Size]byte
	bad  string // what the log has heard already
}

func loadCertificates(files []CertificateFiles) (*certificates, error) {
	c := &certificates{files: files, sums: make([][sha256.Size]byte, len(files))}
	if _, err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// reload reads the files and uses them if they are all good and one has changed.
func (c *certificates) reload() (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pairs := make([]*tls.Certificate, len(c.files))
	sums := make([][sha256.Size]byte, len(c.files))
	for i, files := range c.files {
		var bad error
		if pairs[i], sums[i], bad = files.load(); bad != nil {
			err = errors.Join(err, bad)
		}
		changed = changed || sums[i] != c.sums[i]
	}
	if err != nil {
		c.failed.Add(1)
		return false, err
	}
	if changed {
		c.sums = sums
		c.inUse.Store(&pairs)
		c.loaded.Add(1)
	}
	return changed, nil
}

// get is tls.Config's GetCertificate.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	pairs := *c.inUse.Load()
	for _, pair := range pairs {
		if hello.SupportsCertificate(pair) == nil {
			return pair, nil
		}
	}
	return pairs[0], nil
}

// stats tells of those in use.
func (c *certificates) stats(listener string) []CertificateStats {
	pairs := *c.inUse.Load()
	all := make([]CertificateStats, len(pairs))
	for i, pair := range pairs {
		all[i] = CertificateStats{Listener: listener, CertFile: c.files[i].CertFile, NotAfter: pair.Leaf.NotAfter}
	}
	return all
}

// news tells whether an error is another than the last, so that the log is not filled with one.
func (c *certificates) news(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	is := text != c.bad
	c.bad = text
	return is
}

// watchCertificates looks at the files of a listener again and again.
func (g *Gateway) watchCertificates(ctx context.Context, c *certificates, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = g.reloadCertificates(c) // it has told the log
		}
	}
}

func (g *Gateway) reloadCertificates(c *certificates) error {
	changed, err := c.reload()
	switch news := c.news(err); {
	case err != nil && news:
		g.config.Logger.Error("certificates not loaded, the old ones stay in use", "error", err)
	case changed:
		g.config.Logger.Info("certificates loaded", "first", c.files[0].CertFile)
	case news:
		g.config.Logger.Info("certificate files are good again and those in use", "first", c.files[0].CertFile)
	}
	return err
}

// Reload looks at the files of certificates now, rather than when it is time to. What cannot be loaded leaves the old in
// use, and is told.
func (g *Gateway) Reload() error {
	var errs []error
	for _, f := range g.fronts {
		if f.certificates != nil {
			errs = append(errs, g.reloadCertificates(f.certificates))
		}
	}
	return errors.Join(errs...)
}
