package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/open"
	"github.com/headgate/headgate/server/control/remote"
)

func (p *program) backupCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save the database of a rules service to a file",
		Long: `Save the database of a rules service to a file while the service runs, as of one moment: rules, clients,
overrides, tokens (as hashes), webhooks (with their secrets) and the history. FILE may be - for standard output. Only
you can read the file.`,
		Example: `  headgate backup rules-$(date +%F).backup
  headgate backup - | gzip > rules.backup.gz`,
		Args: cobra.ExactArgs(1),
	}
	p.AddServerFlags(c, f)
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		if args[0] == "-" {
			return client.Backup(ctx, p.Stdout)
		}
		return p.backup(ctx, client, args[0])
	})
	return c
}

// backup saves the database to a file. It writes to another name first, so that a failure leaves no incomplete file.
func (p *program) backup(ctx context.Context, client *remote.Client, name string) error {
	part := name + ".part"
	err := writeBackup(ctx, client, part)
	if err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part) // the first error matters more
		return err
	}
	p.Printf("saved to %s\n", name)
	return nil
}

// writeBackup writes a backup to a new file.
func writeBackup(ctx context.Context, client *remote.Client, name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := client.Backup(ctx, f); err != nil {
		_ = f.Close() // the first error matters more
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func (p *program) restoreCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	var db string
	var replace bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the database of a rules service from a backup",
		Long: `Restore the database of a rules service from a backup, all of it or nothing: rules, clients, history and
tokens. FILE may be - for standard input.

The rules service must be new: its database has only the first token and the demo rules. If it has anything else, the
command fails, unless --replace allows it to delete all of that. The database may be of another kind than the database
that was saved. Nodes apply the restored rules immediately.

Afterwards only the tokens of the backup and the token of --admin-token-file are valid. If none of them has all
permissions, the rules service creates one, and the command prints it.

The command shows progress on standard error. With --db it restores into a database before a rules service is started
with that database, and needs no token.`,
		Example: `  headgate restore --token-file first-token rules-2027-01-31.backup
  headgate restore --replace rules-2027-01-31.backup
  headgate restore --db /var/lib/headgate/rules.db rules-2027-01-31.backup`,
		Args: cobra.ExactArgs(1),
	}
	p.AddServerFlags(c, f)
	c.Flags().StringVar(&db, "db", "", "`URL` of the database to restore, as for serve, instead of a rules service")
	c.Flags().BoolVar(&replace, "replace", false, "delete the current content of the database")
	cli.AddNoteFlag(c, f)
	c.MarkFlagsMutuallyExclusive("db", "note")
	c.MarkFlagsMutuallyExclusive("db", "server")
	c.MarkFlagsMutuallyExclusive("db", "context")
	restoreService := p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		return p.restore(args[0], func(from io.Reader) error {
			result, err := client.Restore(ctx, from, replace)
			if err == nil && result.Token != "" {
				_, _ = fmt.Fprintln(p.Stderr,
					"no token of the backup has all permissions; this new one has, and is shown only once:")
				p.Printf("%s\n", result.Token)
			}
			return err
		})
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if db == "" {
			return restoreService(c, args)
		}
		return p.restore(args[0], func(from io.Reader) error { return restoreDatabase(c.Context(), db, from, replace) })
	}
	return c
}

// restore opens a backup, passes it to apply, and shows progress.
func (p *program) restore(name string, apply func(io.Reader) error) error {
	from := p.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read
		from = f
	}
	file := newUpload(from, "restoring it")
	stop := file.show(p.Stderr)
	err := apply(file)
	stop()
	if err != nil || name == "-" {
		return err
	}
	p.Printf("restored from %s\n", name)
	return nil
}

// openDBTimeout is the time limit for opening a database.
const openDBTimeout = 30 * time.Second

// restoreDatabase restores a backup into a database.
func restoreDatabase(ctx context.Context, url string, from io.Reader, replace bool) error {
	openCtx, cancel := context.WithTimeout(ctx, openDBTimeout)
	defer cancel()
	db, err := open.Open(openCtx, url, open.Options{})
	if err != nil {
		return fmt.Errorf("--db: %w", err)
	}
	base := control.Absent
	if replace {
		base = control.AnyRevision
	}
	err = db.Restore(ctx, from, base)
	if errors.Is(err, control.ErrNotEmpty) {
		err = fmt.Errorf("%w; with --replace, its content is deleted", err)
	}
	return errors.Join(err, db.Close())
}
