package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Options configure a server. With the zero Options it has no password, and stores nothing on disk.
type Options struct {
	// Password is the default user's password. Default none.
	Password string
	// Users are additional users in ACL syntax, such as "alice on >secret ~* &* +@all". Default none.
	Users []string
	// NoScripts denies EVAL and similar commands to the default user, with the error NOPERM. Default false.
	NoScripts bool
	// TLS makes the server accept only TLS on its port. See Server.Certificates. Default false.
	TLS bool
	// MaxMemory is the maximum size of the data in bytes. Default no limit.
	MaxMemory int64
	// MaxMemoryPolicy is the policy when MaxMemory is reached. Default "noeviction".
	MaxMemoryPolicy string
	// Persist keeps the data across a Restart. Default false: a restarted server is empty.
	Persist bool
	// ClockOffset is added to the server's clock; it may be negative. Default 0.
	ClockOffset time.Duration
	// MovableClock lets Server.MoveClock change the clock while the server runs. Default false.
	MovableClock bool
	// Config lists additional lines of redis.conf, which override those that this package writes. Default none.
	Config []string
}

func (o *Options) validate() error {
	switch {
	case o.MaxMemory < 0:
		return fmt.Errorf("redistest: Options.MaxMemory is %d; want at least 0", o.MaxMemory)
	case o.MaxMemoryPolicy != "" && o.MaxMemory == 0:
		return errors.New("redistest: Options.MaxMemoryPolicy needs a MaxMemory")
	case o.MovableClock && o.ClockOffset != 0:
		return errors.New("redistest: Options has a MovableClock and a ClockOffset; call MoveClock instead")
	}
	return nil
}

// The user for the connections of this package, and of servers to each other.
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
		// Replicas get the data without delay.
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

// withClocks returns the options of each of n servers, which differ only in their clocks.
func (o Options) withClocks(n int, clocks []time.Duration) ([]Options, error) {
	if len(clocks) > n {
		return nil, fmt.Errorf("redistest: option Clocks has %d entries; want at most %d, one for each server", len(clocks), n)
	}
	list := slices.Repeat([]Options{o}, n)
	for i, offset := range clocks {
		list[i].ClockOffset += offset
	}
	return list, nil
}
