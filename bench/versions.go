package main

import (
	"context"
	"os/exec"
	"regexp"
	"time"
)

// programVersions returns the versions of the programs that the gateway is measured with.
func programVersions(ctx context.Context) []moduleVersion {
	var list []moduleVersion
	for _, p := range []struct{ name, ask string }{{"nginx", "-v"}, {"haproxy", "-v"}, {"caddy", "version"}, {"wrk", "-v"}} {
		list = append(list, moduleVersion{Module: p.name, Version: programVersion(ctx, p.name, p.ask)})
	}
	return list
}

// versionWord is what looks like a version.
var versionWord = regexp.MustCompile(`\d+(\.\d+)+\S*`)

func programVersion(ctx context.Context, name, ask string) string {
	path, err := program(name)
	if err != nil {
		return "not installed"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, ask).CombinedOutput()
	if found := versionWord.Find(said); found != nil { // wrk tells it and fails
		return string(found)
	}
	if err != nil {
		return "unknown: " + err.Error()
	}
	return "unknown"
}
