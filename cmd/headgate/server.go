package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/rules/source"
)

// localServer is the rules service of a node on this host.
const localServer = "http://127.0.0.1:8084"

// serverFlags are those of commands that talk to a rules service.
type serverFlags struct {
	context string
	timeout time.Duration
	place
}

// serverLong is how commands find their rules service.
const serverLong = `

The rules service is --server, or HEADGATE_SERVER, or that of the current context (see "headgate context"), or the one on this
host. The token is in --token-file, or in the file of HEADGATE_TOKEN_FILE, or in HEADGATE_TOKEN itself.`

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

func (p *program) getenv(name string) string {
	for i := len(p.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// where returns which rules service is meant: flags count before variables, variables before the context.
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
	if server := cmp.Or(f.Server, p.getenv("HEADGATE_SERVER")); server != "" && server != at.Server {
		at = place{Server: server} // a token is for one server
	}
	at.Server = cmp.Or(at.Server, localServer)
	at.TokenFile = cmp.Or(f.TokenFile, p.getenv("HEADGATE_TOKEN_FILE"), at.TokenFile)
	at.Namespace = cmp.Or(f.Namespace, p.getenv("HEADGATE_NAMESPACE"), at.Namespace)
	at.CAFile = cmp.Or(f.CAFile, at.CAFile)
	return at, nil
}

// connect returns a client of the rules service that is meant.
func (p *program) connect(f *serverFlags) (*remote.Client, error) {
	at, err := p.where(f)
	if err != nil {
		return nil, err
	}
	c := remote.Config{
		URL: at.Server, Namespace: at.Namespace, Timeout: f.timeout, UserAgent: "headgate/" + thisBuild().Version, Token: p.getenv("HEADGATE_TOKEN"),
	}
	if at.TokenFile != "" {
		token, err := os.ReadFile(at.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		c.Token = strings.TrimSpace(string(token))
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
		return explainRefusal(do(c.Context(), at, args))
	}
}

// explainRefusal says what to do about a token that is refused.
func explainRefusal(err error) error {
	var refused *remote.Error
	if errors.As(err, &refused) && refused.Status == 401 {
		return fmt.Errorf("%w; give a token with --token-file, HEADGATE_TOKEN_FILE or a context: the first one was printed when the rules service first started", err)
	}
	return err
}

// A format is how what a rules service has is written.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

// formatFlag adds --output to a command. What is in out already is the default.
func formatFlag(c *cobra.Command, out *format) {
	if *out == "" {
		*out = formatTable
	}
	c.Flags().VarP(out, "output", "o", "table, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{string(formatTable), string(formatJSON), string(formatYAML)}, cobra.ShellCompDirectiveNoFileComp
	}) // it is there
}

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "FORMAT" }

func (f *format) Set(text string) error {
	switch format(text) {
	case formatTable, formatJSON, formatYAML:
		*f = format(text)
		return nil
	default:
		return errors.New("want table, json or yaml")
	}
}

// show writes a value as JSON or YAML, or rows as a table.
func (p *program) show(f format, value any, head []string, rows [][]string) error {
	if f == formatTable {
		return p.table(head, rows)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	text, err := written(f, data)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(text)
	return err
}

// written turns JSON into what a person reads.
func written(f format, data []byte) ([]byte, error) {
	if f == formatJSON {
		var b bytes.Buffer
		if err := json.Indent(&b, data, "", "  "); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	}
	read, err := source.Read("answer.json", data)
	if err != nil {
		return nil, err
	}
	return source.YAML(read.Root), nil
}

// table writes columns that stand under each other.
func (p *program) table(head []string, rows [][]string) error {
	if len(rows) == 0 {
		p.say("none\n")
		return nil
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		_, _ = fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}

// ago says how long ago a time was.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := time.Since(t)
	switch {
	case d < 0:
		return "in " + lasting(-d)
	case d < time.Second:
		return "now"
	}
	return lasting(d) + " ago"
}

// lasting writes a time in its largest unit.
func lasting(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d >= unit.of {
			return number(int(d/unit.of), unit.name)
		}
	}
	return d.Round(time.Millisecond).String()
}
