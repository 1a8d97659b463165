package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/headgate/headgate/bench/control"
	"github.com/headgate/headgate/bench/core"
	"github.com/headgate/headgate/bench/faults"
	"github.com/headgate/headgate/bench/fleet"
	"github.com/headgate/headgate/bench/gateway"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/redis"
	"github.com/headgate/headgate/bench/rules"
	"github.com/headgate/headgate/bench/service"
)

// parts returns all parts, in the order of the report.
func parts() []harness.Part {
	return []harness.Part{
		core.Part(), rules.Part(), redis.Part(), faults.Part(), fleet.Part(), gateway.Part(), service.Part(), control.Part(),
	}
}

func partOf(name string) harness.Part {
	for _, p := range parts() {
		if p.Name == name {
			return p
		}
	}
	panic("no part " + name)
}

const reportIntro = "# Results\n\nWritten by `make bench`; do not edit. Each part is one run on one machine, at the time that it says.\n"

func partMarks(name string) (begin, end string) {
	return "\n<!-- begin " + name + " -->\n", "<!-- end " + name + " -->\n"
}

// publish replaces the report of a part in a file. The reports of other parts stay unchanged.
func publish(path, name, report string) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	text, err := replacePart(string(old), name, report)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func replacePart(text, name, report string) (string, error) {
	found := map[string]string{name: report}
	for _, p := range parts() {
		begin, end := partMarks(p.Name)
		_, rest, ok := strings.Cut(text, begin)
		if !ok || p.Name == name {
			continue
		}
		body, _, ok := strings.Cut(rest, end)
		if !ok {
			return "", fmt.Errorf("%q without %q: want both, or a file that is not there", begin, end)
		}
		found[p.Name] = body
	}
	made := reportIntro
	for _, p := range parts() {
		if body, ok := found[p.Name]; ok {
			begin, end := partMarks(p.Name)
			made += begin + body + end
		}
	}
	return made, nil
}
