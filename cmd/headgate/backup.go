package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/open"
	"github.com/headgate/headgate/control/remote"
)

func (p *program) backupCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save all that a rules service keeps",
		Long: `Save all that a rules service keeps to a file, as it is at one moment, while it goes on: rules, clients, overrides, tokens (as
hashes), webhooks (with their secrets) and the history. - is standard output. Only you can read the file.`,
		Example: `  headgate backup rules-$(date +%F).backup
  headgate backup - | gzip > rules.backup.gz`,
		Args: cobra.ExactArgs(1),
	}
	p.addServer(c, f)
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		if args[0] == "-" {
			return at.Backup(ctx, p.stdout)
		}
		return p.backup(ctx, at, args[0])
	})
	return c
}

// backup leaves a file that is whole, or none.
func (p *program) backup(ctx context.Context, at *remote.Client, name string) error {
	made, err := os.OpenFile(name+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = at.Backup(ctx, made)
	if err == nil {
		err = made.Sync()
	}
	if closed := made.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(made.Name(), name)
	}
	if err != nil {
		_ = os.Remove(made.Name()) // it is of no use
		return err
	}
	p.say("saved to %s\n", name)
	return nil
}

func (p *program) restoreCommand() *cobra.Command {
	f := &serverFlags{}
	var db string
	var replace bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a rules service what backup saved",
		Long: `Make a rules service what backup saved, all of it or nothing: rules, clients, history and tokens. - is standard input.

It is for one that is new, in which there is nothing but what came with its first start: the first token, and rules of the
demonstration. One in which somebody has made something refuses, unless --replace says that all of that is to go. The database may be of
another kind than the one that was saved, and nodes take the restored rules at once.

Afterwards the tokens of the backup are good, and no others but the one of --admin-token-file. If none of them may do
everything, one is made and shown.

With --db a database is filled before a rules service is started on it, and no token is needed.`,
		Example: `  headgate restore --token-file first-token rules-2027-01-31.backup
  headgate restore --replace rules-2027-01-31.backup
  headgate restore --db /var/lib/headgate/rules.db rules-2027-01-31.backup`,
		Args: cobra.ExactArgs(1),
	}
	p.addServer(c, f)
	c.Flags().StringVar(&db, "db", "", "`URL` of the database to fill, as serve has it, rather than a rules service")
	c.Flags().BoolVar(&replace, "replace", false, "give up all that there is for what was saved")
	noteFlag(c, f)
	c.MarkFlagsMutuallyExclusive("db", "note")
	c.MarkFlagsMutuallyExclusive("db", "server")
	c.MarkFlagsMutuallyExclusive("db", "context")
	byService := p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		return p.restore(args[0], func(from io.Reader) error {
			made, err := at.Restore(ctx, from, replace)
			if err == nil && made.Token != "" {
				_, _ = fmt.Fprintln(p.stderr, "no token of the backup may do everything; this one may, and is shown this once:")
				p.say("%s\n", made.Token)
			}
			return err
		})
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if db == "" {
			return byService(c, args)
		}
		return p.restore(args[0], func(from io.Reader) error { return restoreInto(c.Context(), db, from, replace) })
	}
	return c
}

// restore hands what a file has to whoever takes it.
func (p *program) restore(name string, take func(io.Reader) error) error {
	if name == "-" {
		return take(p.stdin)
	}
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was read
	if err := take(from); err != nil {
		return err
	}
	p.say("restored from %s\n", name)
	return nil
}

// openTime is how long a database may take to be opened.
const openTime = 30 * time.Second

// restoreInto fills a database.
func restoreInto(ctx context.Context, url string, from io.Reader, replace bool) error {
	opening, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	db, err := open.Open(opening, url, open.Options{})
	if err != nil {
		return fmt.Errorf("--db: %w", err)
	}
	over := control.Absent
	if replace {
		over = control.Any
	}
	err = db.Restore(ctx, from, over)
	if errors.Is(err, control.ErrNotEmpty) {
		err = fmt.Errorf("%w; --replace gives that up for the backup", err)
	}
	return errors.Join(err, db.Close())
}
