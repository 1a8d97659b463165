package gateway

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/headgate/headgate/bench/site"
)

// openCaddy starts Caddy as a plain proxy, because it has no limiter of its own.
func openCaddy(ctx context.Context, s *site.Site) (site.RunningServer, error) {
	path, err := site.Program("caddy")
	if err != nil {
		return site.RunningServer{}, err
	}
	return s.StartServer(ctx, func(address string) (*exec.Cmd, error) {
		dir, err := os.MkdirTemp(s.Dir, "caddy-")
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, "Caddyfile")
		if err := os.WriteFile(file, fmt.Appendf(nil, caddyConfig, port, s.Upstream), 0o644); err != nil {
			return nil, err
		}
		cmd := exec.Command(path, "run", "--config", file, "--adapter", "caddyfile")
		// Caddy cannot have ballast. With this setting, its garbage is collected about as rarely as that of servers with
		// ballast.
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "GOGC="+caddyGOGC)
		return cmd, nil
	})
}

const caddyGOGC = "700"

const caddyConfig = `
{
	admin off
	auto_https off
	log {
		level ERROR
	}
}
http://:%[1]s {
	bind 127.0.0.1
	reverse_proxy %[2]s {
		transport http {
			keepalive 1h
			keepalive_idle_conns_per_host 1024
			compression off
			versions 1.1
		}
	}
}
`
