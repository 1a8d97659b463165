package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Options say how a server is started. The zero Options are good for most tests: anyone may do anything, and nothing is
// kept on disk.
type Options struct {
	// Password is what the default user has to give. Default none.
	Password string
	// Users are more users, each the way the ACL knows it, as in "alice on >secret ~* &* +@all". Default none.
	Users []string
	// NoScripts denies EVAL and all its kin to the default user, with the error NOPERM. Default false.
	NoScripts bool
	// TLS makes the server speak nothing else on its port. See Server.Certificates. Default false.
	TLS bool
	// MaxMemory is the most that data may take, in bytes. Default no limit.
	MaxMemory int64
	// MaxMemoryPolicy is what the server does then. Default "noeviction".
	MaxMemoryPolicy string
	// Persist keeps the data over a Restart. Default false: a restarted server is empty.
	Persist bool
	// ClockOffset is how much later the server thinks it is; it thinks it is earlier if that is negative. Default 0.
	ClockOffset time.Duration
	// Config are more lines of redis.conf, which win over ours. Default none.
	Config []string
}

func (o *Options) validate() error {
	switch {
	case o.MaxMemory < 0:
		return fmt.Errorf("redistest: Options.MaxMemory is %d; want at least 0", o.MaxMemory)
	case o.MaxMemoryPolicy != "" && o.MaxMemory == 0:
		return errors.New("redistest: Options.MaxMemoryPolicy needs a MaxMemory")
	}
	return nil
}

// The user through whom the harness speaks to servers, and servers to each other.
const (
	adminName     = "redistest"
	adminPassword = "redistest"
)

// config returns the lines of redis.conf that follow from the options.
func (o *Options) config() []string {
	user := "user default on ~* &* +@all"
	if o.Password == "" {
		user += " nopass"
	} else {
		user += " " + strconv.Quote(">"+o.Password)
	}
	if o.NoScripts {
		user += " -@scripting"
	}
	lines := []string{
		user,
		"user " + adminName + " on ~* &* +@all >" + adminPassword,
		"masteruser " + adminName,
		"masterauth " + adminPassword,
		`save ""`,
		// A replica that asks for the data gets them at once.
		"repl-diskless-sync yes",
		"repl-diskless-sync-delay 0",
		"repl-ping-replica-period 1",
	}
	for _, u := range o.Users {
		lines = append(lines, "user "+u)
	}
	if o.Persist {
		lines = append(lines, "appendonly yes")
	} else {
		lines = append(lines, "appendonly no")
	}
	if o.MaxMemory > 0 {
		policy := o.MaxMemoryPolicy
		if policy == "" {
			policy = "noeviction"
		}
		lines = append(lines, "maxmemory "+strconv.FormatInt(o.MaxMemory, 10), "maxmemory-policy "+policy)
	}
	return append(lines, o.Config...)
}

// withClocks returns the options of each of n servers: all alike but for their clocks.
func (o Options) withClocks(n int, clocks []time.Duration) ([]Options, error) {
	if len(clocks) > n {
		return nil, fmt.Errorf("redistest: Clocks has %d entries; want at most %d, one for each server", len(clocks), n)
	}
	each := make([]Options, n)
	for i := range each {
		each[i] = o
		if i < len(clocks) {
			each[i].ClockOffset += clocks[i]
		}
	}
	return each, nil
}
