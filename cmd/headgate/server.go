package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/internal/secretfile"
)

// localServer is the rules service of a node on this host.
const localServer = "http://127.0.0.1:8084"

// serverFlags are those of commands that talk to a rules service.
type serverFlags struct {
	context string
	timeout time.Duration
	note    string
	place
}

// serverLong is how commands find their rules service.
const serverLong = `

The rules service is --server, or that of --context, or HEADGATE_SERVER, or that of the current context (see "headgate context"), or
the one on this host. The token is in --token-file, or in the file of HEADGATE_TOKEN_FILE, or in HEADGATE_TOKEN itself.`

// addServer adds them to a command.
func (p *program) addServer(c *cobra.Command, f *serverFlags) {
	c.Long = strings.TrimSpace(cmp.Or(c.Long, c.Short+".") + serverLong)
	flags := c.PersistentFlags()
	flags.StringVar(&f.Server, "server", "", "`URL` of the rules service")
	flags.StringVar(&f.TokenFile, "token-file", "", "`FILE` that holds a token")
	flags.StringVar(&f.Namespace, "namespace", "", "`NAME` of the service whose rules are meant (default \"default\")")
	flags.StringVar(&f.CAFile, "ca-file", "", "`FILE` with the certificates to trust, PEM")
	flags.StringVar(&f.context, "context", "", "`NAME` of the context to use")
	flags.DurationVar(&f.timeout, "timeout", remote.DefaultTimeout, "how long a call may take")
	_ = c.RegisterFlagCompletionFunc("context", p.completeContexts) // it is there
}

// noteFlag adds --note to a command that changes something.
func noteFlag(c *cobra.Command, f *serverFlags) {
	c.Flags().StringVar(&f.note, "note", "", "why, `TEXT` for the history and the audit")
}

func (p *program) getenv(name string) string {
	for i := len(p.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// where returns which rules service is meant: flags count before variables, variables before the current context. A context that a
// flag names counts before variables, too: who names staging must not change what a variable leads to.
func (p *program) where(f *serverFlags) (place, error) {
	kept, err := p.readContexts()
	if err != nil && (f.context != "" || !errors.Is(err, errNoHome)) { // a place that cannot be read is not the one on this host
		return place{}, err
	}
	name := cmp.Or(f.context, p.getenv("HEADGATE_CONTEXT"), kept.Current)
	at, ok := kept.Contexts[name]
	if !ok && name != "" {
		return place{}, fmt.Errorf("there is no context %q: want one of %q", name, slices.Sorted(maps.Keys(kept.Contexts)))
	}
	if f.context != "" && f.Server == "" {
		tokenFile := at.TokenFile
		if tokenFile == "" && !p.elsewhere(at.Server) {
			tokenFile = p.getenv("HEADGATE_TOKEN_FILE")
		}
		at.TokenFile, at.Namespace, at.CAFile = cmp.Or(f.TokenFile, tokenFile), cmp.Or(f.Namespace, at.Namespace), cmp.Or(f.CAFile, at.CAFile)
		return at, nil
	}
	if server := cmp.Or(f.Server, p.getenv("HEADGATE_SERVER")); server != "" && server != at.Server {
		at = place{Server: server} // a token is for one server
	}
	at.Server = cmp.Or(at.Server, localServer)
	at.TokenFile = cmp.Or(f.TokenFile, p.getenv("HEADGATE_TOKEN_FILE"), at.TokenFile)
	at.Namespace = cmp.Or(f.Namespace, p.getenv("HEADGATE_NAMESPACE"), at.Namespace)
	at.CAFile = cmp.Or(f.CAFile, at.CAFile)
	return at, nil
}

// elsewhere reports whether the token that variables hold is for another server.
func (p *program) elsewhere(server string) bool {
	named := p.getenv("HEADGATE_SERVER")
	return named != "" && named != server
}

// connect returns a client of the rules service that is meant.
func (p *program) connect(f *serverFlags) (*remote.Client, error) {
	at, err := p.where(f)
	if err != nil {
		return nil, err
	}
	c := remote.Config{URL: at.Server, Namespace: at.Namespace, Timeout: f.timeout, Note: f.note, UserAgent: "headgate/" + thisBuild().Version}
	if f.context == "" || !p.elsewhere(at.Server) {
		c.Token = p.getenv("HEADGATE_TOKEN")
	}
	if at.TokenFile != "" {
		token, err := secretfile.Read(at.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		c.Token = strings.TrimSpace(string(token))
		if c.Token == "" || strings.ContainsFunc(c.Token, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return nil, fmt.Errorf("token: %s holds no token: want one, on a line of its own", at.TokenFile)
		}
	}
	if at.CAFile != "" {
		certificates, err := os.ReadFile(at.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca-file: %w", err)
		}
		c.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		if !c.TLS.RootCAs.AppendCertsFromPEM(certificates) {
			return nil, fmt.Errorf("ca-file: %s holds no certificate: want PEM", at.CAFile)
		}
	}
	return remote.New(c)
}

// calling returns the function of a command that calls a rules service.
func (p *program) calling(f *serverFlags, do func(ctx context.Context, at *remote.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		at, err := p.connect(f)
		if err != nil {
			return err
		}
		defer func() { _ = at.Close() }() // what it has done is done
		return p.explainRefusal(f, do(c.Context(), at, args))
	}
}

// explainRefusal says what to do about a server that is not there, a token that is refused, and what somebody else has changed.
func (p *program) explainRefusal(f *serverFlags, err error) error {
	var refused *remote.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		at, _ := p.where(f) // it was found before
		return fmt.Errorf("nobody answers at %s: is the rules service running there? --server, HEADGATE_SERVER or a context says where it is (%w)", at.Server, err)
	case !errors.As(err, &refused):
		return err
	case refused.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w\n  give one with --token-file, HEADGATE_TOKEN_FILE or a context: the first was printed when the rules service was first started; if it is lost, start that with --admin-token-file", err)
	case refused.Diff != "":
		var diff strings.Builder
		for line := range strings.Lines(refused.Diff) {
			diff.WriteString("\n  " + strings.TrimSuffix(line, "\n"))
		}
		return fmt.Errorf("%w%s", err, diff.String())
	}
	return err
}
