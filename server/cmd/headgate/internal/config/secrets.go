package config

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/secretfile"
	"github.com/headgate/headgate/server/service"
)

const (
	minSecret = 16
	maxSecret = 4096
)

// readSecret reads a secret from a file, without a newline at its end.
func readSecret(path string) ([]byte, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) < minSecret || len(data) > maxSecret {
		return nil, fmt.Errorf("%s has %d bytes: want %d to %d, better 32 random ones", path, len(data), minSecret, maxSecret)
	}
	return data, nil
}

// Secret returns the secret that all nodes share, or nil if none is configured.
func (c *Config) Secret() ([]byte, error) {
	if c.KeySecretFile == "" {
		return nil, nil
	}
	secret, err := readSecret(c.KeySecretFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Origin("key-secret-file"), err)
	}
	return secret, nil
}

// Token returns the token that callers of the decision service need, or nil if they need none.
func (c *Config) Token() (*service.Token, error) {
	if c.APITokenFile == "" {
		return nil, nil
	}
	t, err := service.ReadToken(c.APITokenFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Origin("api-token-file"), err)
	}
	return t, nil
}

// ResetToken returns the admin token, which allows to reset keys of the decision service, or nil if there is none.
func (c *Config) ResetToken() (*service.Token, error) {
	if c.AdminTokenFile == "" {
		return nil, nil
	}
	t, err := service.ReadToken(c.AdminTokenFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Origin("admin-token-file"), err)
	}
	return t, nil
}

// HookSecret returns the secret of the webhook that this node receives, or nil if it receives none.
func (c *Config) HookSecret() ([]byte, error) {
	if c.RulesService.HookSecretFile == "" {
		return nil, nil
	}
	secret, err := readLine(c.RulesService.HookSecretFile)
	if err != nil {
		return nil, c.problemAt("rules_service.hook_secret_file", err.Error(), "a file with one line")
	}
	return []byte(secret), nil
}

// AdminToken returns the token with all permissions, or "" if only the database has tokens.
func (c *Config) AdminToken() (string, error) {
	if c.AdminTokenFile == "" {
		return "", nil
	}
	token, err := readLine(c.AdminTokenFile)
	if err == nil && len(token) < service.MinToken {
		err = fmt.Errorf("%s: %d characters are too few: want at least %d, better 32 random ones", c.AdminTokenFile,
			len(token), service.MinToken)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Origin("admin-token-file"), err)
	}
	return token, nil
}

// maxLine is the maximum length of a secret in one line, in bytes.
const maxLine = 4096

// readLine returns the only line of a secret file.
func readLine(path string) (string, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(text) > maxLine ||
		strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s: want one line of printable ASCII characters without spaces", path)
	}
	return text, nil
}

// GossipKey returns the key that encrypts gossip, or nil if none is configured.
func (c *Config) GossipKey() ([]byte, error) {
	if c.GossipKeyFile == "" {
		return nil, nil
	}
	const maxBase64 = 128 // bytes
	data, err := secretfile.Read(c.GossipKeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Origin("gossip-key-file"), err)
	}
	text := bytes.TrimSpace(data)
	if len(text) <= maxBase64 {
		if key, err := base64.StdEncoding.DecodeString(string(text)); err == nil && isKeySize(len(key)) {
			return key, nil
		}
	}
	if text = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r")); isKeySize(len(text)) {
		return text, nil
	}
	return nil, fmt.Errorf(
		"%s: %s contains no key: want 16, 24 or 32 bytes, or these in base64, such as from: openssl rand -base64 32",
		c.Origin("gossip-key-file"), c.GossipKeyFile)
}

func isKeySize(n int) bool { return n == 16 || n == 24 || n == 32 }
