package measure

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/loadgen/target"
	"github.com/headgate/headgate/server/plan"
)

// The rules of a node of a calibration, which apply one limit and several.
const oneLimit, severalLimits = "one", "several"

// calibrateRules returns a rules file for calibrations. Its limits are so high that all requests are admitted.
func calibrateRules(limits int, consistency string) string {
	list := []string{"1000/s"}
	for i := 2; i <= limits; i++ {
		list = append(list, fmt.Sprintf("%d/%ds", 1000*i, i))
	}
	const rule = "  - { id: %s, key: user, limits: [%s], consistency: %s, on_failure: closed }\n"
	return "rules:\n" + fmt.Sprintf(rule, oneLimit, list[0], consistency) +
		fmt.Sprintf(rule, severalLimits, strings.Join(list, ", "), consistency)
}

// calibrate measures constants on this machine. It shows the current step on standard error.
func (p *program) calibrate(ctx context.Context, f *planFlags, in *plan.Input, c *plan.Constants) error {
	if f.duration <= 0 || f.duration > 10*time.Minute {
		return fmt.Errorf("--calibrate-time %v: want a time up to 10m", f.duration)
	}
	fmt.Fprintln(p.Stderr, "headgate: measuring the memory of counters")
	if err := plan.MeasureCounters(ctx, c, in.NodeCounters()); err != nil {
		return err
	}
	perNode := f.duration
	if in.Limits > 1 {
		perNode *= 2
	}
	fmt.Fprintf(p.Stderr, "headgate: measuring a node for about %v\n", perNode)
	node := calibratedNode{limits: min(in.Limits, rules.MaxLimits), duration: f.duration}
	if err := p.calibrateNode(ctx, &c.OnNode, node); err != nil {
		return err
	}
	if f.redis == "" {
		return nil
	}
	fmt.Fprintf(p.Stderr, "headgate: measuring Redis for about %v\n", 3*f.duration+f.duration/4)
	if err := calibrateShard(ctx, f, in.Limits, c); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "headgate: measuring a node with Redis for about %v\n", perNode)
	node.redis = f.redis
	return p.calibrateNode(ctx, &c.InRedis, node)
}

// redisScheme is the beginning of valid values of --redis.
const redisScheme = "redis://"

// calibrateShard measures the Redis server of --redis.
func calibrateShard(ctx context.Context, f *planFlags, limits int, c *plan.Constants) error {
	address := "redis-store://" + strings.TrimPrefix(f.redis, redisScheme)
	t, err := target.Open(ctx, target.Options{Address: address, Limit: headgate.PerSecond(1000)})
	if err != nil {
		return err
	}
	store, err := target.OpenRedis(ctx, f.redis, "headgate-plan")
	if err != nil {
		return errors.Join(err, t.Close())
	}
	return errors.Join(plan.MeasureShard(ctx, c, t, store, limits, f.duration), store.Close(), t.Close())
}

// nodeStartTime is the timeout for the start of the node of a calibration.
const nodeStartTime = 30 * time.Second

// A calibratedNode is a node that is measured.
type calibratedNode struct {
	limits   int
	redis    string // URL of the server in which the node makes its decisions, "" for none
	duration time.Duration
}

// files writes the files of the node to a directory and returns its flags.
func (n *calibratedNode) files(dir string) (flags []string, err error) {
	rulesFile, config := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "headgate.yaml")
	consistency, settings := "local", ""
	if n.redis != "" {
		secret := filepath.Join(dir, "secret") // or the node would store one in Redis
		if err := os.WriteFile(secret, []byte(rand.Text()), 0o600); err != nil {
			return nil, err
		}
		// The URL may have a password, so it is not a flag.
		settings = fmt.Sprintf("store: %q\nkey_secret_file: %q\nredis: { prefix: headgate-plan-node, deadline: 1s }\n",
			n.redis, secret)
		consistency = "exact"
	}
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	flags = []string{
		"--config", config, "--rules", rulesFile, "--grpc-addr", "127.0.0.1:0", "--data-dir", dir,
		"--gateway-addr", "off", "--api-addr", "off", "--resp-addr", "off", "--admin-addr", "off",
	}
	return flags, os.WriteFile(rulesFile, []byte(calibrateRules(n.limits, consistency)), 0o600)
}

// calibrateNode starts a node of this program on a free port and measures it over gRPC.
func (p *program) calibrateNode(ctx context.Context, s *plan.NodeSpeed, n calibratedNode) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headgate-plan-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	flags, err := n.files(dir)
	if err != nil {
		return err
	}
	node := exec.Command(program, append([]string{"serve"}, flags...)...)
	node.Env = slices.DeleteFunc(slices.Clone(p.Environ), func(s string) bool { return strings.HasPrefix(s, "HEADGATE_") })
	node.Env = append(node.Env, "XDG_STATE_HOME="+dir)
	log, err := node.StderrPipe()
	if err != nil {
		return err
	}
	if err := node.Start(); err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	defer func() {
		_ = node.Process.Kill() // fails if the node has ended; it need not save anything
		_ = node.Wait()
	}()
	startCtx, cancel := context.WithTimeout(ctx, nodeStartTime)
	defer cancel()
	stop := context.AfterFunc(startCtx, func() { _ = node.Process.Kill() }) // ends the wait for its log
	address, err := grpcAddress(json.NewDecoder(log))
	stop()
	if err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	return n.measure(ctx, s, "grpc://"+address)
}

// measure measures the node at an address.
func (n *calibratedNode) measure(ctx context.Context, s *plan.NodeSpeed, address string) error {
	one, err := target.Open(ctx, target.Options{Address: address, Rule: oneLimit})
	if err != nil {
		return err
	}
	several, err := target.Open(ctx, target.Options{Address: address, Rule: severalLimits})
	if err != nil {
		return errors.Join(err, one.Close())
	}
	err = s.Measure(ctx, plan.NodeTargets{One: one, Several: several, Limits: n.limits}, n.duration)
	return errors.Join(err, one.Close(), several.Close())
}

// grpcAddress reads the log of a node until it finds the address of the gRPC listener.
func grpcAddress(log *json.Decoder) (string, error) {
	for {
		var line struct {
			Msg  string `json:"msg"`
			GRPC string `json:"grpc"`
		}
		if err := log.Decode(&line); err != nil {
			return "", fmt.Errorf("it did not listen: %w", err)
		}
		if line.Msg == "listening" && line.GRPC != "" {
			return line.GRPC, nil
		}
	}
}
