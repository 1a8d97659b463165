package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/postgres"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/control/sqlite"
	"github.com/headgate/headgate/server/control/token"
)

// checkRules checks the source of the rules: a file, a rules service, or a database.
func (r *run) checkRules(ctx context.Context) {
	c := r.config
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	switch c.RulesSource() {
	case config.FromFile:
		r.checkRulesFile("rules", c.Rules)
	case config.FromControl:
		r.checkRulesService(ctx)
		r.checkStateDir("rules received from control are kept there for the next start")
	case config.FromDatabase:
		r.checkDatabase(ctx)
	}
	if c.DBFollows != "" {
		r.checkRulesFile("db_follows", c.DBFollows)
	}
}

func (r *run) checkRulesFile(check, path string) {
	result := rulesfile.Lint(path, nil)
	if result.Err != nil {
		r.problem(check, result.Err.Error(), "correct the file; headgate rules lint "+path+" checks it")
		return
	}
	for _, w := range result.Warnings {
		r.warn(check, fmt.Sprintf("%s:%d: %s %s", path, w.Line, w.Path, w.Value),
			"see headgate rules lint "+path+": want "+w.Want)
	}
	r.ok(check, "%s is valid", path)
}

// checkRulesService makes the calls with which a node gets its rules.
func (r *run) checkRulesService(ctx context.Context) {
	const check = "control"
	settings, err := r.config.RemoteConfig(r.Version)
	if err != nil {
		r.problem(check, err.Error(), "correct the setting; headgate tokens create --role node creates a token")
		return
	}
	settings.Timeout = r.Timeout
	client, err := remote.New(settings)
	if err != nil {
		r.problem(check, err.Error(), "correct control")
		return
	}
	defer func() { _ = client.Close() }() // all calls have returned
	before := r.Now()
	var caller token.Principal
	if err := client.Do(ctx, http.MethodGet, "/v1/whoami", nil, nil, &caller); err != nil {
		r.problem(check, err.Error(), fixControl(err))
		return
	}
	took := r.Now().Sub(before)
	r.checkControlClock(ctx, settings)
	snapshot, err := client.Snapshot(ctx, control.Mark{})
	if err != nil {
		r.problem(check, err.Error(), fixControl(err))
		return
	}
	revision := snapshot.Header.Revision
	if err := snapshot.Close(); err != nil {
		r.problem(check, err.Error(), fixControl(err))
		return
	}
	detail := fmt.Sprintf("%s responds in %v, and sends revision %d to the token %s with the role %s", client.Name(),
		took.Round(10*time.Microsecond), revision, caller.ID, caller.Role)
	if left := caller.Expires.Sub(r.Now()); !caller.Expires.IsZero() && left < warnBefore {
		r.warn(check, fmt.Sprintf("%s, which expires on %s", detail, caller.Expires.Format(time.DateOnly)),
			"create another token (headgate tokens create --role node) and replace the content of token_file")
		return
	}
	r.ok(check, "%s", detail)
}

// checkControlClock compares the clock of the rules service, which is in the Date header, with the clock of this host.
func (r *run) checkControlClock(ctx context.Context, settings remote.Config) {
	if !strings.HasPrefix(settings.URL, "http") {
		return // a Unix socket: the rules service has the clock of this host
	}
	transport := &http.Transport{TLSClientConfig: settings.TLS, Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	url := strings.TrimSuffix(settings.URL, "/") + "/healthz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return // remote.New has accepted the URL
	}
	before := r.Now()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		r.add(Result{"control", Warning, "the clock is not known: " + err.Error(), fixControl(err)})
		return
	}
	_ = response.Body.Close() // only the header is read
	took := r.Now().Sub(before)
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return // a proxy has removed the header
	}
	// The header has whole seconds, rounded down, so the time is half a second later on average.
	r.checkSkew("control", settings.URL, date.Add(time.Second/2).Sub(before.Add(took/2)), took/2+time.Second/2)
}

// fixControl returns the fix for an error of the rules service.
func fixControl(err error) string {
	var refused *remote.Error
	if errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
		return "put a token with the role node into token_file: headgate tokens create --role node --id NODE"
	}
	return "check that the rules service runs, that control is its admin address, and that this host can reach it. " +
		"Until then, a node uses the rules in data_dir"
}

// checkDatabase checks the database of the rules service in this process.
func (r *run) checkDatabase(ctx context.Context) {
	switch db := r.config.DB; {
	case strings.HasPrefix(db, "postgres://"), strings.HasPrefix(db, "postgresql://"):
		r.checkPostgres(ctx, db)
		r.checkStateDir("the rules are kept there for a start without the database")
	case strings.Contains(db, "://"):
		r.checkRedis(ctx, "db", db)
		r.checkStateDir("the rules are kept there for a start without the database")
	case db != "":
		r.checkSQLite(ctx, strings.TrimPrefix(db, "sqlite:"))
	default:
		if dir, ok := r.checkStateDir("the database is there"); ok {
			r.checkSQLite(ctx, filepath.Join(dir, "rules.db"))
		}
	}
}

// fixDatabase is the fix for a database that cannot be used.
const fixDatabase = "run the newer version, restore a backup with headgate restore, or set another db"

func (r *run) checkSQLite(ctx context.Context, path string) {
	const check = "db"
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := checkWritable(filepath.Dir(path)); err != nil {
			r.problem(check, err.Error(), "create the directory, and make the user of headgate its owner")
			return
		}
		r.ok(check, "%s does not exist; the first start creates it", path)
		return
	}
	found, err := sqlite.Inspect(ctx, path)
	if err != nil {
		r.problem(check, err.Error(), fixDatabase)
		return
	}
	if err := checkWritable(filepath.Dir(path)); err != nil {
		r.problem(check, err.Error(), "make the user of headgate the owner of the directory and of its files")
		return
	}
	r.addSchema(check, path+" is intact", found.Schema, found.Latest)
}

func (r *run) checkPostgres(ctx context.Context, url string) {
	const check = "db"
	found, err := postgres.Inspect(ctx, url)
	switch {
	case err != nil:
		r.problem(check, err.Error(), "check that the server runs, and the address, user and password of db")
		return
	case found.Replica:
		r.problem(check, found.Name+" is a replica, which takes no writes", "use the address of the primary")
		return
	case found.Encoding != "UTF8":
		r.problem(check, found.Name+" has the encoding "+found.Encoding,
			"CREATE DATABASE headgate ENCODING 'UTF8' TEMPLATE template0")
		return
	case found.Schema > found.Latest:
		r.problem(check, fmt.Sprintf("%s is from a newer version of headgate: its schema is version %d, and this version knows "+
			"%d", found.Name, found.Schema, found.Latest), fixDatabase)
		return
	}
	r.checkSkew(check, found.Name, found.Skew, found.Ping/2)
	r.addSchema(check, fmt.Sprintf("%s: version %s, ping %v, clock skew %v", found.Name, found.Version,
		found.Ping.Round(10*time.Microsecond), found.Skew.Round(time.Millisecond)), found.Schema, found.Latest)
}

func (r *run) addSchema(check, detail string, schema, latest int) {
	switch {
	case schema == 0:
		r.ok(check, "%s; it has no tables yet, the first start creates them", detail)
	case schema < latest:
		r.warn(check, fmt.Sprintf("%s; its schema is version %d, and the next start changes it to %d", detail, schema, latest),
			"make a backup first (headgate backup FILE): older versions of headgate do not open the new schema")
	default:
		r.ok(check, "%s; its schema is current", detail)
	}
}

// checkStateDir checks that the state directory can be written. The result contains purpose, a text about the content
// of the directory.
func (r *run) checkStateDir(purpose string) (dir string, ok bool) {
	const check = "data_dir"
	dir, err := r.config.StateDir()
	if err == nil {
		err = checkWritable(dir)
	}
	if err != nil {
		r.problem(check, err.Error()+"; "+purpose,
			"set data_dir to a directory that the user of headgate owns; StateDirectory=headgate in a systemd unit creates one")
		return "", false
	}
	r.ok(check, "%s can be written; %s", dir, purpose)
	return dir, true
}

// checkWritable checks that a directory can be written or created. It creates and removes a file in the directory, or
// in the closest parent that exists.
func checkWritable(dir string) error {
	for {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		if err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, os.ErrNotExist) || parent == dir {
			return err
		}
		dir = parent
	}
	f, err := os.CreateTemp(dir, ".headgate-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
