package redistest

import (
	"errors"
	"os/exec"
)

// findServer returns the path of the server program, which is also the program of sentinels.
func findServer() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("redistest: neither redis-server nor valkey-server is on the PATH; " +
		"install the package redis-server, as make need-redis does")
}
