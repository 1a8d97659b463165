package licences

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// phrases identify the licences that are accepted: each text contains all phrases of one of them. Longer texts that
// contain a shorter one come first.
var phrases = []struct {
	name string
	all  []string
}{
	{"Apache-2.0", []string{"Apache License", "Version 2.0"}},
	{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "endorse or promote products"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms"}},
	{"MIT", []string{"Permission is hereby granted, free of charge"}},
	{"CC0-1.0", []string{"Creative Commons Legal Code", "CC0 1.0 Universal"}}, // public domain
	{"ISC", []string{"Permission to use, copy, modify, and/or distribute this software"}},
}

// classify returns the name of the licence with this text, or "" if it is none of those accepted.
func classify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if strings.Contains(text, "GNU ") && !strings.Contains(text, "Mozilla Public License") {
		return ""
	}
	for _, l := range phrases {
		if !slices.ContainsFunc(l.all, func(phrase string) bool { return !strings.Contains(text, phrase) }) {
			return l.name
		}
	}
	return ""
}

func TestLicencesAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                    "Apache-2.0",
		"Permission is hereby granted,\nfree of charge, to any person":                    "MIT",
		"GNU GENERAL PUBLIC LICENSE Version 3":                                            "",
		"All rights reserved.":                                                            "",
		"Redistribution and use in source and binary forms, with or without modification": "BSD-2-Clause",
	} {
		if got := classify(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestEveryModuleOfTheProgramMayBeDistributed(t *testing.T) {
	const format = "{{with .Module}}{{.Path}} {{.Dir}}{{end}}"
	c := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, "./server/cmd/headgate")
	c.Dir = "../.."
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	counts := map[string]int{}
	for _, line := range slices.Compact(lines) {
		module, dir, ok := strings.Cut(line, " ")
		if !ok || strings.HasPrefix(module, "github.com/headgate/headgate") {
			continue
		}
		name := licenceIn(t, dir)
		if name == "" {
			t.Errorf("%s: no licence that is accepted, in %s", module, dir)
		}
		counts[name]++
	}
	t.Log(counts)
	if len(counts) < 2 {
		t.Errorf("got %v, want the licences of all modules", counts)
	}
}

// licenceIn returns the licence of a module.
func licenceIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if found := classify(string(text)); found != "" {
			return found
		}
	}
	return ""
}
