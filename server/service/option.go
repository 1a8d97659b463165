package service

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/identity"
)

// Options sets the defaults of a configuration and checks the bounds of its numbers. Err returns the first problem.
type Options struct {
	prefix string
	err    error
}

// CheckOptions returns Options whose errors begin with prefix, such as "grpcapi: ".
func CheckOptions(prefix string) *Options { return &Options{prefix: prefix} }

// Err returns the error of the first option out of its bounds.
func (o *Options) Err() error { return o.err }

const (
	// MaxInt is the upper bound of options that need none: sums of several still fit into an int everywhere.
	MaxInt = 1 << 29
	// MaxDuration is the upper bound of all durations.
	MaxDuration = 365 * 24 * time.Hour
)

// Int sets an option that is 0 to its default, and checks that it is between least and most.
func (o *Options) Int(name string, value *int, defaultValue, minimum, maximum int) {
	checkOption(o, name, value, defaultValue, minimum, maximum)
}

// Duration is Int for a duration of at most MaxDuration.
func (o *Options) Duration(name string, value *time.Duration, defaultValue, minimum time.Duration) {
	checkOption(o, name, value, defaultValue, minimum, MaxDuration)
}

// Identifier sets an identifier that is nil to one of the zero identity.Config.
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
