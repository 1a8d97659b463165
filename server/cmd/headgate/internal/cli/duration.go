package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/rules"
)

// A duration is the value of a flag.
type duration time.Duration

// AddDurationFlag adds a flag for a duration of Go, such as 1.5h, or of rules, such as 7d. The default is the current value
// of d.
func AddDurationFlag(flags *pflag.FlagSet, d *time.Duration, name, usage string) {
	flags.Var((*duration)(d), name, usage)
}

// String implements pflag.Value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (*duration) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		parsed, err = rules.ParseDuration(text)
	}
	*d = duration(parsed)
	return err
}
