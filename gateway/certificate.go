package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/headgate/headgate/internal/certs"
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
		if _, err := files.load(); err != nil {
			k.add(index(field+".Certificates", i), "("+err.Error()+")", "files with a certificate and its key in PEM")
		}
	}
	if v := t.MinVersion; v != 0 && v != tls.VersionTLS12 && v != tls.VersionTLS13 {
		k.add(field+".MinVersion", tls.VersionName(v), "TLS 1.2 or TLS 1.3")
	}
	between(k, field+".CheckFiles", t.CheckFiles, time.Millisecond, maxDuration)
}

// load reads the pair.
func (f CertificateFiles) load() (*tls.Certificate, error) { return certs.Files(f).Load() }

// certificates are those of a listener that are in use.
type certificates struct{ *certs.Set }

func loadCertificates(files []CertificateFiles) (*certificates, error) {
	pairs := make([]certs.Files, len(files))
	for i, f := range files {
		pairs[i] = certs.Files(f)
	}
	set, err := certs.Load(pairs, "")
	if err != nil {
		return nil, err
	}
	return &certificates{set}, nil
}

// get is tls.Config's GetCertificate.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Get(hello) }

// stats tells of those in use.
func (c *certificates) stats(listener string) []CertificateStats {
	var all []CertificateStats
	c.Each(func(file string, pair *tls.Certificate) {
		all = append(all, CertificateStats{Listener: listener, CertFile: file, NotAfter: pair.Leaf.NotAfter})
	})
	return all
}

// watchCertificates looks at the files of a listener again and again.
func (g *Gateway) watchCertificates(ctx context.Context, c *certificates, every time.Duration) {
	c.Watch(ctx, every, g.config.Logger)
}

// Reload looks at the files of certificates now, rather than when it is time to. What cannot be loaded leaves the old in
// use, and is told.
func (g *Gateway) Reload() error {
	var errs []error
	for _, f := range g.fronts {
		if f.certificates != nil {
			errs = append(errs, f.certificates.Reload(g.config.Logger))
		}
	}
	return errors.Join(errs...)
}
