package service

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/identity"
)

// Options sets the defaults of a configuration, and checks the minimum and maximum of its numbers. Call one method for
// each field, and then Err.
type Options struct {
	prefix string
	err    error
}

// CheckOptions returns an Options whose errors begin with prefix, such as "grpcapi: ".
func CheckOptions(prefix string) *Options { return &Options{prefix: prefix} }

// Err returns an error about the first option that is too small or too large, or nil.
func (o *Options) Err() error { return o.err }

const (
	// MaxInt is the maximum of integer options that need no smaller one. The sum of a few such options still fits into an
	// int on 32-bit systems.
	MaxInt = 1 << 29
	// MaxDuration is the maximum of all options that are durations.
	MaxDuration = 365 * 24 * time.Hour
)

// Int sets an option that is 0 to its default, and checks that it is between minimum and maximum.
func (o *Options) Int(name string, value *int, defaultValue, minimum, maximum int) {
	checkOption(o, name, value, defaultValue, minimum, maximum)
}

// Duration sets a duration that is 0 to its default, and checks that it is between minimum and MaxDuration.
func (o *Options) Duration(name string, value *time.Duration, defaultValue, minimum time.Duration) {
	checkOption(o, name, value, defaultValue, minimum, MaxDuration)
}

// Identifier sets an identifier that is nil to an identifier with the zero identity.Config.
func (o *Options) Identifier(id **identity.Identifier) {
	if *id == nil && o.err == nil {
		*id, o.err = identity.New(identity.Config{})
	}
}

func checkOption[T int | time.Duration](o *Options, name string, value *T, defaultValue, minimum, maximum T) {
	if *value == 0 {
		*value = defaultValue
	}
	if o.err == nil && (*value < minimum || *value > maximum) {
		o.err = fmt.Errorf("%s%s %v: want %v to %v, or 0 for %v", o.prefix, name, *value, minimum, maximum, defaultValue)
	}
}
