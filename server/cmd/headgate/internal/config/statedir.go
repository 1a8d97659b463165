package config

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
)

// The environment variables that name a directory for state.
const (
	stateDirectory = "STATE_DIRECTORY" // of systemd; directories separated by colons
	xdgState       = "XDG_STATE_HOME"
	home           = "HOME"
	localAppData   = "LOCALAPPDATA" // of Windows
)

// stateVariables returns the variables of environ that name a directory for state.
func stateVariables(environ []string) map[string]string {
	variables := map[string]string{}
	for _, pair := range environ {
		switch name, value, _ := strings.Cut(pair, "="); name {
		case stateDirectory, xdgState, home, localAppData:
			variables[name] = value
		}
	}
	return variables
}

var errNoState = errors.New("no directory for state; set one with --data-dir")

// StateDir returns the directory for data that outlives this process. It may not exist yet.
func (c *Config) StateDir() (string, error) {
	if c.DataDir != "" {
		return c.DataDir, nil
	}
	first, _, _ := strings.Cut(c.stateEnv[stateDirectory], ":")
	for _, parent := range []struct{ dir, name string }{
		{first, ""},
		{c.stateEnv[xdgState], "headgate"},
		{onWindows(c.stateEnv[localAppData]), "headgate"},
		{c.stateEnv[home], filepath.Join(".local", "state", "headgate")},
	} {
		if filepath.IsAbs(parent.dir) {
			return filepath.Join(parent.dir, parent.name), nil
		}
	}
	return "", errNoState
}

// onWindows returns dir on Windows, and "" on other systems.
func onWindows(dir string) string {
	if runtime.GOOS == "windows" {
		return dir
	}
	return ""
}
