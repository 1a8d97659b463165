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

// readSecret reads a secret from a file and removes a newline at the end.
func readSecret(path string) ([]byte, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	data = trimNewline(data)
	if len(data) < minSecret || len(data) > maxSecret {
		return nil, fmt.Errorf("%s has %d bytes: want %d to %d, preferably 32 random ones", path, len(data), minSecret, maxSecret)
	}
	return data, nil
}

// readSettingFile reads the file of a setting. It returns the zero value if path is empty.
func readSettingFile[T any](c *Config, setting, path string, read func(path string) (T, error)) (content T, err error) {
	if path == "" {
		return content, nil
	}
	if content, err = read(path); err != nil {
		return content, fmt.Errorf("%s: %w", c.Origin(setting), err)
	}
	return content, nil
}

// Secret returns the secret that all nodes share, or nil if none is configured.
func (c *Config) Secret() ([]byte, error) {
	return readSettingFile(c, "key-secret-file", c.KeySecretFile, readSecret)
}

// SecondSecret returns the second secret, which is used while operators replace the first one, or nil if none is
// configured.
func (c *Config) SecondSecret() ([]byte, error) {
	const setting = "second-key-secret-file"
	second, err := readSettingFile(c, setting, c.SecondSecretFile, readSecret)
	if err != nil || second == nil {
		return nil, err
	}
	first, err := c.Secret()
	if err != nil {
		return nil, err
	}
	switch {
	case first == nil:
		return nil, fmt.Errorf("%s: given without key_secret_file: set that to the file with the first secret", c.Origin(setting))
	case bytes.Equal(first, second):
		return nil, fmt.Errorf("%s: has the same secret as key_secret_file: use a different one, or no second file", c.Origin(setting))
	}
	return second, nil
}

// Token returns the token that callers of the decision service need, or nil if they need none.
func (c *Config) Token() (*service.Token, error) {
	return readSettingFile(c, "api-token-file", c.APITokenFile, service.ReadToken)
}

// ResetToken returns the admin token, with which callers of the decision service may reset keys, or nil if none is
// configured.
func (c *Config) ResetToken() (*service.Token, error) {
	return readSettingFile(c, "admin-token-file", c.AdminTokenFile, service.ReadToken)
}

// HookSecret returns the secret of the webhook that this node receives, or nil if it receives none.
func (c *Config) HookSecret() ([]byte, error) {
	if c.RulesService.HookSecretFile == "" {
		return nil, nil
	}
	secret, err := ReadLine(c.RulesService.HookSecretFile)
	if err != nil {
		return nil, c.problemAt("rules_service.hook_secret_file", err.Error(), "a file with one line")
	}
	return []byte(secret), nil
}

// AdminToken returns the configured token with all rights, or "" if only the database has tokens.
func (c *Config) AdminToken() (string, error) {
	return readSettingFile(c, "admin-token-file", c.AdminTokenFile, func(path string) (string, error) {
		token, err := ReadLine(path)
		if err == nil && len(token) < service.MinToken {
			err = fmt.Errorf("%s: %d characters are too few: want at least %d, preferably 32 random ones", path, len(token),
				service.MinToken)
		}
		return token, err
	})
}

// maxLine is the maximum length of a secret in one line, in bytes.
const maxLine = 4096

// ReadLine returns the content of a secret file that has one line.
func ReadLine(path string) (string, error) {
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
	return readSettingFile(c, "gossip-key-file", c.GossipKeyFile, readGossipKey)
}

func readGossipKey(path string) ([]byte, error) {
	const maxBase64 = 128 // bytes
	data, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	if text := bytes.TrimSpace(data); len(text) <= maxBase64 {
		if key, err := base64.StdEncoding.DecodeString(string(text)); err == nil && isKeySize(len(key)) {
			return key, nil
		}
	}
	if key := trimNewline(data); isKeySize(len(key)) {
		return key, nil
	}
	return nil, fmt.Errorf(
		"%s contains no key: want 16, 24 or 32 bytes, raw or in base64, such as from: openssl rand -base64 32", path)
}

// trimNewline removes one newline from the end of data.
func trimNewline(data []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
}

func isKeySize(n int) bool { return n == 16 || n == 24 || n == 32 }
