package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/contexts"
	"github.com/headgate/headgate/server/control/remote"
)

// defaultServer is the URL of the rules service on this host.
const defaultServer = "http://127.0.0.1:8084"

// ServerFlags are the flags of commands that call a rules service.
type ServerFlags struct {
	context string
	timeout time.Duration
	Note    string // the reason for a change
	contexts.Target
}

const serverHelp = `

The command calls the first of these rules services that is set: --server, that of the context in --context,
HEADGATE_SERVER, that of the current context (see "headgate context"), or the rules service on this host. The token
comes from the file in --token-file or HEADGATE_TOKEN_FILE, or from HEADGATE_TOKEN.`

// AddServerFlags adds the flags in f to a command and its subcommands, and an explanation to its help.
func (p *Program) AddServerFlags(c *cobra.Command, f *ServerFlags) {
	c.Long = strings.TrimSpace(cmp.Or(c.Long, c.Short+".") + serverHelp)
	flags := c.PersistentFlags()
	flags.StringVar(&f.Server, "server", "", "`URL` of the rules service")
	flags.StringVar(&f.TokenFile, "token-file", "", "`FILE` that holds a token")
	flags.StringVar(&f.Namespace, "namespace", "", "`NAME` of the namespace (default \"default\")")
	flags.StringVar(&f.CAFile, "ca-file", "", "PEM `FILE` with the CA certificates to trust")
	flags.StringVar(&f.context, "context", "", "`NAME` of the context to use")
	flags.DurationVar(&f.timeout, "timeout", remote.DefaultTimeout, "maximum `DURATION` of a call")
	_ = c.RegisterFlagCompletionFunc("context", p.CompleteContexts) // the flag exists
}

// AddNoteFlag adds --note to a command that makes changes.
func AddNoteFlag(c *cobra.Command, f *ServerFlags) {
	c.Flags().StringVar(&f.Note, "note", "", "reason for the change, a `TEXT` for the history and the audit log")
}

// target returns the rules service to call. Flags take precedence over environment variables, and environment variables
// over the current context. A context that --context names also takes precedence over environment variables: with
// --context staging, a command must not change the service in HEADGATE_SERVER.
func (p *Program) target(f *ServerFlags) (contexts.Target, error) {
	file, err := p.ReadContexts()
	if err != nil && (f.context != "" || !errors.Is(err, contexts.ErrNoPath)) {
		return contexts.Target{}, err // do not fall back to the rules service on this host
	}
	name := cmp.Or(f.context, p.Getenv("HEADGATE_CONTEXT"), file.Current)
	target, ok := file.Contexts[name]
	if !ok && name != "" {
		return contexts.Target{}, file.Unknown(name)
	}
	if f.context != "" && f.Server == "" {
		tokenFile := target.TokenFile
		if tokenFile == "" && !p.tokenForOtherServer(target.Server) {
			tokenFile = p.Getenv("HEADGATE_TOKEN_FILE")
		}
		target.TokenFile, target.Namespace = cmp.Or(f.TokenFile, tokenFile), cmp.Or(f.Namespace, target.Namespace)
		target.CAFile = cmp.Or(f.CAFile, target.CAFile)
		return target, nil
	}
	if server := cmp.Or(f.Server, p.Getenv("HEADGATE_SERVER")); server != "" && server != target.Server {
		target = contexts.Target{Server: server} // the token of the context is for another server
	}
	target.Server = cmp.Or(target.Server, defaultServer)
	target.TokenFile = cmp.Or(f.TokenFile, p.Getenv("HEADGATE_TOKEN_FILE"), target.TokenFile)
	target.Namespace = cmp.Or(f.Namespace, p.Getenv("HEADGATE_NAMESPACE"), target.Namespace)
	target.CAFile = cmp.Or(f.CAFile, target.CAFile)
	return target, nil
}

// tokenForOtherServer reports whether the token in the environment is for another server.
func (p *Program) tokenForOtherServer(server string) bool {
	envServer := p.Getenv("HEADGATE_SERVER")
	return envServer != "" && envServer != server
}

// Connect returns a client of the rules service that the flags select.
func (p *Program) Connect(f *ServerFlags) (*remote.Client, error) {
	target, err := p.target(f)
	if err != nil {
		return nil, err
	}
	c := remote.Config{
		URL: target.Server, Namespace: target.Namespace, Timeout: f.timeout, Note: f.Note,
		UserAgent: "headgate/" + p.Version,
	}
	if f.context == "" || !p.tokenForOtherServer(target.Server) {
		c.Token = p.Getenv("HEADGATE_TOKEN")
	}
	if target.TokenFile != "" {
		if c.Token, err = config.ReadLine(target.TokenFile); err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
	}
	if target.CAFile != "" {
		if c.TLS, err = config.TrustCAFile(target.CAFile); err != nil {
			return nil, fmt.Errorf("ca-file: %w", err)
		}
	}
	return remote.New(c)
}

// WithClient returns a function for RunE that calls do with a client of the rules service.
func (p *Program) WithClient(
	f *ServerFlags, do func(ctx context.Context, client *remote.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		client, err := p.Connect(f)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }() // all calls have returned
		return p.withAdvice(f, do(c.Context(), client, args))
	}
}

// withAdvice adds advice to an error. If nothing listens at the address, it explains how to set the address. If the
// token is refused, it explains how to set a token. If another caller has changed the object, it adds the difference.
func (p *Program) withAdvice(f *ServerFlags, err error) error {
	var remoteErr *remote.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		target, _ := p.target(f) // Connect has called it without an error
		return fmt.Errorf("nothing listens at %s: is the rules service running? Set its address with --server, "+
			"HEADGATE_SERVER or a context (%w)", target.Server, err)
	case !errors.As(err, &remoteErr):
		return err
	case remoteErr.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w\n  set a token with --token-file, HEADGATE_TOKEN_FILE or a context: the rules service prints "+
			"its first token at its first start; if that is lost, start the service with --admin-token-file", err)
	case remoteErr.Diff != "":
		var diff strings.Builder
		for line := range strings.Lines(remoteErr.Diff) {
			diff.WriteString("\n  " + strings.TrimSuffix(line, "\n"))
		}
		return fmt.Errorf("%w%s", err, diff.String())
	}
	return err
}
