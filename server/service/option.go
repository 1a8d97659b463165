package service

import (
	"fmt"
	"time"
)

// Options sets the defaults of a configuration's numbers and checks their bounds. Err returns the first problem.
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
func (o *Options) Int(name string, value *int, byDefault, least, most int) {
	checkOption(o, name, value, byDefault, least, most)
}

// Duration is Int for a duration of at most MaxDuration.
func (o *Options) Duration(name string, value *time.Duration, byDefault, least time.Duration) {
	checkOption(o, name, value, byDefault, least, MaxDuration)
}

func checkOption[T int | time.Duration](o *Options, name string, value *T, byDefault, least, most T) {
	if *value == 0 {
		*value = byDefault
	}
	if o.err == nil && (*value < least || *value > most) {
		o.err = fmt.Errorf("%s%s %v: want %v to %v, or 0 for %v", o.prefix, name, *value, least, most, byDefault)
	}
}
