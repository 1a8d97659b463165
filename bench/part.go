package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// A part is scenarios that are measured, reported and published together. Ratios hold within a part: what is compared was
// measured in the same run on the same machine.
type part struct {
	name      string
	title     string
	scenarios []scenario
	versions  func(context.Context) []moduleVersion // of peers, for the report
	method    func(*strings.Builder, *results)
	bars      func(*results) []bar
}

// parts are all of them, in the order of the report.
func parts() []part {
	return []part{
		{"core", "In process", coreScenarios(), linked(entries()), coreMethod, coreBars},
		{"rules", "Rules and decisions", rulesScenarios(), linked(nil), rulesMethod, rulesBars},
		{"redis", "In Redis", []scenario{{"redis", 60, runRedis}, {"redis-half", 45, runRedisHalf}}, linked(redisEntries()), redisMethod, redisBars},
		{"faults", "When Redis fails", []scenario{{"faults", 180, runFaults}}, linked(nil), faultsMethod, faultBars},
		{"fleet", "Across hosts", fleetScenarios(), linked(nil), fleetMethod, fleetBars},
		{"gateway", "At the gateway", gatewayScenarios(), programVersions, gatewayMethod, gatewayBars},
		{"service", "The decision service", serviceScenarios(), serviceVersions, serviceMethod, serviceBars},
		{"control", "The rules service", controlScenarios(), linked(nil), controlMethod, controlBars},
	}
}

func partOf(name string) part {
	for _, p := range parts() {
		if p.name == name {
			return p
		}
	}
	panic("no part " + name)
}

const reportIntro = "# Results\n\nWritten by `make bench`; do not edit. Each part is one run on one machine, at the time that it says.\n"

func partMarks(name string) (begin, end string) {
	return "\n<!-- begin " + name + " -->\n", "<!-- end " + name + " -->\n"
}

// publish puts the report of a part in the place of the one before it in a file. The other parts stay as they are.
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
		begin, end := partMarks(p.name)
		_, rest, ok := strings.Cut(text, begin)
		if !ok || p.name == name {
			continue
		}
		body, _, ok := strings.Cut(rest, end)
		if !ok {
			return "", fmt.Errorf("%q without %q: want both, or a file that is not there", begin, end)
		}
		found[p.name] = body
	}
	made := reportIntro
	for _, p := range parts() {
		if body, ok := found[p.name]; ok {
			begin, end := partMarks(p.name)
			made += begin + body + end
		}
	}
	return made, nil
}
