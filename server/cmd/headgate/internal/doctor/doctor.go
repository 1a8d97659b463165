package doctor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
)

// A Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK      Status = "ok"
	Warning Status = "warning" // a node runs, but something should be changed
	Problem Status = "problem" // a node does not start or does not work correctly
	Skipped Status = "skipped" // not checked
)

// A Result is the result of one check.
type Result struct {
	// Check is the name of the checked setting or part, such as gateway_addr or store.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Detail describes the findings and, for warnings and problems, their consequences.
	Detail string `json:"detail"`
	// Fix says how to fix a warning or problem.
	Fix string `json:"fix,omitempty"`
}

// A Report has all results.
type Report struct {
	Problems int      `json:"problems"`
	Warnings int      `json:"warnings"`
	Checks   []Result `json:"checks"`
}

// DefaultTimeout is how long one check of another server may take.
const DefaultTimeout = 5 * time.Second

// Options configure Run.
type Options struct {
	// Version is the version of this program.
	Version string
	// Timeout limits each check of another server. Default DefaultTimeout.
	Timeout time.Duration
	// Now returns the time. Default time.Now.
	Now func() time.Time
	// OnStart, if set, is called with the name of a check before it starts, and OnResult with each result.
	OnStart  func(check string)
	OnResult func(Result)
}

// A run is one call of Run.
type run struct {
	Options

	config  *config.Config
	running *runningNode // the node that runs at the configured admin address; nil if there is none
	report  Report
}

// Run loads the configuration and checks all parts of it. It changes nothing: it creates and migrates no database, and
// consumes no units. If ctx ends, the report has the results so far, and the other checks are Skipped.
func Run(ctx context.Context, in config.Inputs, o Options) Report {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &run{Options: o, report: Report{Checks: []Result{}}}
	if !r.loadConfig(in) {
		return r.report
	}
	for _, c := range []struct {
		name  string
		check func(context.Context)
	}{
		{"secrets", r.checkSecrets},
		{"listeners", r.checkListeners},
		{"exposure", r.checkExposure},
		{"descriptors", r.checkDescriptors},
		{"certificates", r.checkCertificates},
		{"clock", r.checkClock},
		{"store", r.checkStores},
		{"rules", r.checkRules},
		{"upstreams", r.checkUpstreams},
	} {
		if ctx.Err() != nil {
			r.add(Result{c.name, Skipped, "interrupted", ""})
			continue
		}
		if r.OnStart != nil {
			r.OnStart(c.name)
		}
		c.check(ctx)
	}
	return r.report
}

func (r *run) add(result Result) {
	switch result.Status {
	case Problem:
		r.report.Problems++
	case Warning:
		r.report.Warnings++
	case OK, Skipped:
	}
	r.report.Checks = append(r.report.Checks, result)
	if r.OnResult != nil {
		r.OnResult(result)
	}
}

func (r *run) warn(check, detail, fix string) { r.add(Result{check, Warning, detail, fix}) }

func (r *run) problem(check, detail, fix string) { r.add(Result{check, Problem, detail, fix}) }

func (r *run) ok(check, format string, args ...any) {
	r.add(Result{check, OK, fmt.Sprintf(format, args...), ""})
}

// loadConfig loads the configuration and reports whether it is valid.
func (r *run) loadConfig(in config.Inputs) bool {
	const check = "configuration"
	c, warnings, err := config.Load(in)
	if err != nil {
		r.problem(check, err.Error(), "correct the setting; docs/config.md describes all of them")
		return false
	}
	r.config = c
	for _, w := range warnings {
		r.warn(check, w, "correct the name, or unset the variable")
	}
	if c.File() != "" {
		r.ok(check, "%s is valid", c.File())
	} else {
		r.ok(check, "flags and variables are valid; no configuration file")
	}
	return true
}

// checkSecrets reads the files with secrets, which a node reads at its start.
func (r *run) checkSecrets(context.Context) {
	const check = "secrets"
	c := r.config
	read := 0
	for _, s := range []struct {
		path string
		read func() error
	}{
		{c.KeySecretFile, func() error { _, err := c.Secret(); return err }},
		{c.SecondSecretFile, func() error { _, err := c.SecondSecret(); return err }},
		{c.APITokenFile, func() error { _, err := c.Token(); return err }},
		{c.AdminTokenFile, func() error { _, err := c.AdminToken(); return err }},
		{c.GossipKeyFile, func() error { _, err := c.GossipKey(); return err }},
		{c.RulesService.HookSecretFile, func() error { _, err := c.HookSecret(); return err }},
	} {
		if s.path == "" {
			continue
		}
		if err := s.read(); err != nil {
			r.problem(check, err.Error(),
				"create the file with: openssl rand -hex 32 > FILE; chmod 600 FILE; make the user of headgate its owner")
			continue
		}
		read++
	}
	if read > 0 {
		r.ok(check, "%d of the configured files are valid", read)
	}
	if c.KeySecretFile == "" && c.Store != config.StoreMemory {
		r.warn(check, "key_secret_file is not set: bearer tokens and very long values are counted on each node separately, "+
			"and leases are not protected",
			"set the same key_secret_file on all nodes")
	}
}
